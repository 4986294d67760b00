package record_test

import (
	"errors"
	"testing"

	"github.com/evictd/evictd/internal/decide"
)

// The kernel's count since boot is shown, and nothing while it cannot be read.
func TestOOMKillsTotal(t *testing.T) {
	t.Parallel()
	const name = "evictd_oom_kills_total"
	r := newRig(t)
	expect(t, r, name, "40")
	r.kills = 43
	expect(t, r, name, "43")
	r.kills, r.unread = 44, errors.New("unread")
	expect(t, r, name)
	r.unread = nil
	expect(t, r, name, "44")
}

// What the memory is used by is shown while it is known.
func TestMemoryUsed(t *testing.T) {
	t.Parallel()
	const name = "evictd_memory_used_bytes"
	r := newRig(t)
	r.memory = decide.Breakdown{"Anonymous": 7, "Other": 0}
	expect(t, r, name, "Anonymous 7", "Other 0")
	r.unread = errors.New("unread")
	expect(t, r, name)
}

// A kill is logged with the last decision that named the pod, where there is one.
func TestOOMKilled(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	d, other := decision(), held(decide.HoldNoCandidates)
	other.ID = d.ID + 1
	r.Decision(d)
	r.Decision(other)
	r.lines(t)
	for _, test := range []struct {
		pod, container string
		count          int64
		want           map[string]any
	}{
		{"hog", "main", 2, map[string]any{"level": "warn", "pod": "shop/hog", "uid": "uid-hog", "container": "main", "oom_kills": 2.0, "last_decision": float64(d.ID)}},
		{"fair", "", 1, map[string]any{"pod": "shop/fair", "container": nil, "last_decision": float64(d.ID)}},
		{"evictd", "", 1, map[string]any{"pod": "shop/evictd", "oom_kills": 1.0, "last_decision": nil}}, // it is protected
	} {
		r.OOMKilled("shop/"+test.pod, "uid-"+test.pod, test.container, test.count)
		line := r.lines(t)[0]
		for key, want := range test.want {
			if line[key] != want {
				t.Errorf("%s: %s is %v; want %v", test.pod, key, line[key], want)
			}
		}
	}
}
