package main

import (
	"strings"
	"testing"
)

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
		b := bench{settings: settings{results: t.TempDir(), commit: "new", source: c.now}}
		r := Result{Scenario: 3, Arm: evictdArm, Run: 2, Commit: "old", Source: c.kept}
		if err := r.write(b.settings.results); err != nil {
			t.Fatal(err)
		}
		if done, err := b.done(&r); err != nil || done != c.done {
			t.Errorf("%s: done %v, %v, want %v", name, done, err, c.done)
		}
	}
}

// The head of the table has one line for each source, with its commits.
func TestOriginsOfOneSeries(t *testing.T) {
	results := []Result{
		{Source: "abc", Commit: "c1", Evictd: "evictd c1", Machine: "m", Kubernetes: "v1"},
		{Source: "abc", Commit: "c2", Evictd: "evictd c2", Machine: "m", Kubernetes: "v1"},
		{Source: "abd", Commit: "c3", Evictd: "evictd c3", Machine: "m", Kubernetes: "v1"},
	}
	text := strings.Join(origins(results), "\n")
	for _, want := range []string{"2 runs of source abc: commits c1, c2; evictd c1, evictd c2; m; Kubernetes v1", "1 runs of source abd: commits c3"} {
		if !strings.Contains(text, want) {
			t.Errorf("the head lacks %q:\n%s", want, text)
		}
	}
}
