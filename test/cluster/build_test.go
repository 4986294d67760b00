package cluster

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// A checkout gets what another has built, and gets it again when it is built anew.
func TestPlaceFollowsTheCache(t *testing.T) {
	dir := t.TempDir()
	cached, target := filepath.Join(dir, "cached"), filepath.Join(dir, "target")
	for i, content := range []string{"old", "new", "longer"} {
		fresh := filepath.Join(dir, "fresh")
		if err := os.WriteFile(fresh, []byte(content), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(fresh, time.Time{}, time.Unix(int64(i), 0)); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(fresh, cached); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := place(cached, target); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := os.ReadFile(target); err != nil || string(got) != content {
			t.Errorf("target %q (%v), want %q", got, err, content)
		}
	}
}

func TestCacheIsWhereTheVariableSays(t *testing.T) {
	t.Setenv("EVICTD_CACHE", t.TempDir())
	path, err := cachedPath("0123456789abcdef0123", "etcd")
	if err != nil {
		t.Fatal(err)
	}
	if want := filepath.Join(os.Getenv("EVICTD_CACHE"), "cluster-0123456789abcdef", "etcd"); path != want {
		t.Errorf("path %s, want %s", path, want)
	}
}
