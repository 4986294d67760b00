package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The pods' cgroup is read and limited in both versions.
func TestRoomOfBothVersions(t *testing.T) {
	for name, c := range map[string]struct {
		room           *room
		files          map[string]string
		left           int64
		held           held
		limit, nothing string
	}{
		"v1": {
			room: &room{},
			files: map[string]string{
				"memory.stat": "inactive_file 1\ntotal_inactive_file 3000\ntotal_rss 5000\ntotal_cache 8600\ntotal_shmem 600\n", "memory.usage_in_bytes": "13000\n",
				"memory.kmem.usage_in_bytes": "70\n",
			},
			left: 81920 - 10000, held: held{5670, 5000}, limit: "memory.limit_in_bytes", nothing: "-1",
		},
		"v2": {
			room: &room{unified: true},
			files: map[string]string{
				"memory.stat": "anon 5000\nfile 7600\nshmem 600\ninactive_file 3000\nslab_reclaimable 400\nslab_unreclaimable 40\npagetables 20\nkernel_stack 10\n", "memory.current": "13000\n",
			},
			left: 81920 - 10000, held: held{5670, 5600}, limit: "memory.max", nothing: "max",
		},
	} {
		r := c.room
		r.group = t.TempDir()
		for file, text := range c.files {
			if err := os.WriteFile(filepath.Join(r.group, file), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := r.limit(81920); err != nil {
			t.Fatal(err)
		}
		left, err := r.podsLeft()
		held, unread := r.pods()
		if err != nil || unread != nil || left != c.left || held != c.held || r.stillLimited() != nil {
			t.Errorf("%s: %d left, %v held, %v, %v, %v", name, left, held, err, unread, r.stillLimited())
		}
		if err := r.limit(-1); err != nil {
			t.Fatal(err)
		}
		if text, _ := os.ReadFile(filepath.Join(r.group, c.limit)); strings.TrimSpace(string(text)) != c.nothing {
			t.Errorf("%s: no limit is %q", name, text)
		}
		r.limited.Store(81920)
		if r.stillLimited() == nil {
			t.Errorf("%s: another limit is not noticed", name)
		}
	}
}
