package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// repository is a new git repository, in which the test then runs.
func repository(t *testing.T) (write func(name, text string), commit func()) {
	t.Helper()
	dir := t.TempDir()
	t.Chdir(dir)
	// The machine's own configuration of git could sign commits or run hooks.
	t.Setenv("GIT_CONFIG_GLOBAL", os.DevNull)
	t.Setenv("GIT_CONFIG_SYSTEM", os.DevNull)
	runs := func(arguments ...string) {
		t.Helper()
		output, err := exec.CommandContext(t.Context(), "git", append([]string{"-c", "user.name=t", "-c", "user.email=t@t"}, arguments...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("git %s: %v: %s", strings.Join(arguments, " "), err, output)
		}
	}
	runs("init", "-q")
	write = func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return write, func() {
		t.Helper()
		runs("add", "-A")
		runs("commit", "-q", "-m", "c")
	}
}

// A commit of tests and documentation alone is of the same source; one of what is measured is not.
func TestSource(t *testing.T) {
	write, commit := repository(t)
	source := func() string {
		t.Helper()
		text, err := sourceOf(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	for _, name := range []string{"pkg/a/a.go", "test/bench/incidents/main.go", "docs/page.md"} {
		write(name, "first\n")
	}
	commit()
	first := source()
	for _, name := range []string{"docs/page.md", "pkg/a/a_test.go", "pkg/a/README.md", "pkg/a/testdata/file", "test/e2e/e.go", "test/bench/incidents/soak.go"} {
		write(name, "changed\n")
		changed := source()
		commit()
		if committed := source(); changed != first || committed != first {
			t.Errorf("%s is changed: %s, and committed: %s, want %s", name, changed, committed, first)
		}
	}
	for _, name := range []string{"pkg/a/a.go", "deploy/new.yaml", "go.mod", "test/bench/incidents/main.go"} {
		before := source()
		write(name, "changed\n")
		changed := source()
		commit()
		if committed := source(); changed != before+dirtyMark || committed == before || strings.HasSuffix(committed, dirtyMark) {
			t.Errorf("%s is changed: %s, and committed: %s, was %s", name, changed, committed, before)
		}
	}
	t.Chdir(t.TempDir())
	if text, err := sourceOf(t.Context()); err == nil {
		t.Errorf("without git the source is %q, want an error", text)
	}
}

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
		b := bench{settings: settings{results: t.TempDir(), commit: "new"}, machine: machine{source: c.now}}
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
