package main

import "testing"

// A run is done when its result is of the same source, whatever the commit.
func TestDoneBySource(t *testing.T) {
	for name, c := range map[string]struct {
		kept, now string
		done      bool
	}{
		"the same":               {"abc", "abc", true},
		"another":                {"abc", "abd", false},
		"unknown":                {"", "", false},
		"changed, not committed": {"abc" + dirtyMark, "abc" + dirtyMark, false},
	} {
		s := settings{results: t.TempDir(), source: c.now}
		r := Result{Scenario: 3, Arm: evictdArm, Run: 2, Commit: "old", Source: c.kept}
		if err := r.write(s.results); err != nil {
			t.Fatal(err)
		}
		if done, err := s.done(&r); err != nil || done != c.done {
			t.Errorf("%s: done %v, %v, want %v", name, done, err, c.done)
		}
	}
}
