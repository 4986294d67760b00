package stages

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const events = `{"Action":"start","Package":"github.com/evictd/evictd/internal/agent"}
{"Action":"run","Package":"github.com/evictd/evictd/internal/agent","Test":"TestA"}
{"Action":"output","Package":"github.com/evictd/evictd/internal/agent","Test":"TestA","Output":"{\"Action\":\"fail\",\"Test\":\"x\"}"}
{"Action":"pass","Package":"github.com/evictd/evictd/internal/agent","Test":"TestA/part","Elapsed":1}
{"Action":"pass","Package":"github.com/evictd/evictd/internal/agent","Test":"TestA","Elapsed":2.5}
{"Action":"skip","Package":"github.com/evictd/evictd/internal/agent","Test":"TestB","Elapsed":0}
{"Action":"fail","Package":"github.com/evictd/evictd/internal/agent","Test":"TestC/a_\u003e_b","Elapsed":6}
{"Action":"fail","Package":"github.com/evictd/evictd/internal/agent","Test":"TestC","Elapsed":7}
{"Action":"fail","Package":"github.com/evictd/evictd/internal/agent","Elapsed":9}
{"Action":"fail","Package":"github.com/evictd/evictd/pkg/rank","Elapsed":0}
{"Action":"pass","Package":"github.com/evictd/evictd/pkg/rank","Test":"Te`

// report returns what report.awk makes of two stages: a package counts where none of its tests did, and a stage where
// it failed without a failed test.
func report(t *testing.T, variables ...string) string {
	t.Helper()
	awk := exec.CommandContext(t.Context(), "awk", append(variables, "-f", "report.awk")...)
	awk.Stdin = strings.NewReader("stage\tverify\t1\t40\nstage\ttest\t1\t61\ntarget\tinner\n" + events + "\n")
	text, err := awk.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return string(text)
}

func TestTable(t *testing.T) {
	const want = `
stage            tests  failed  skipped  seconds  result
verify               0       0        0       40  FAILED
test                 6       3        1       61  FAILED

failed:
  test: make inner
  test: internal/agent.TestC/a_>_b
  test: internal/agent.TestC
  test: pkg/rank

slowest:
     7.0 s  internal/agent.TestC
     2.5 s  internal/agent.TestA
     0.0 s  internal/agent.TestB
`
	if got := report(t); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestLine(t *testing.T) {
	const want = "| e2e-all | 3fe4ffa92 | 2026-11-25 03:04 | 2 | 4 | 1 | 101 | 6.1.0 | make verify, " +
		"internal/agent.TestC/a_>_b, internal/agent.TestC, pkg/rank |\n"
	if got := report(t, "-v", "head=e2e-all | 3fe4ffa92 | 2026-11-25 03:04", "-v", "kernel=6.1.0"); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// A target that fails, also one that a target runs, does not keep the next from running.
func TestRun(t *testing.T) {
	script, err := filepath.Abs("run")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	makefile := "good:\n\t@echo '{\"Action\":\"pass\",\"Package\":\"p\",\"Test\":\"TestOf$@\",\"Elapsed\":1}' >$$TEST_RESULTS/a.json\n" +
		"bad:\n\t@false\nboth:\n\t@" + script + " bad good\n"
	if err = os.WriteFile(filepath.Join(dir, "Makefile"), []byte(makefile), 0o600); err != nil {
		t.Fatal(err)
	}
	run := exec.CommandContext(t.Context(), script, "both", "good")
	run.Dir, run.Env = dir, append(os.Environ(), "TEST_RESULTS=", "MAKEFLAGS=", "MAKELEVEL=")
	text, err := run.Output()
	if err == nil || strings.Count(string(text), "\nslowest:\n") != 1 {
		t.Errorf("%v: %s", err, text)
	}
	for _, want := range []string{
		`(?m)^both +1 +0 +0 +\d+  FAILED$`, `(?m)^good +1 +0 +0 +\d+  passed$`, "  both: make bad\n", "  both: make both\n", `s  p.TestOfgood`,
	} {
		if !regexp.MustCompile(want).Match(text) {
			t.Errorf("%s is missing:\n%s", want, text)
		}
	}
}
