package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const events = `{"Action":"start","Package":"github.com/evictd/evictd/internal/agent"}
{"Action":"run","Package":"github.com/evictd/evictd/internal/agent","Test":"TestA"}
{"Action":"output","Package":"github.com/evictd/evictd/internal/agent","Test":"TestA","Output":"x\n"}
{"Action":"pass","Package":"github.com/evictd/evictd/internal/agent","Test":"TestA/part","Elapsed":1}
{"Action":"pass","Package":"github.com/evictd/evictd/internal/agent","Test":"TestA","Elapsed":2.5}
{"Action":"skip","Package":"github.com/evictd/evictd/internal/agent","Test":"TestB","Elapsed":0}
{"Action":"fail","Package":"github.com/evictd/evictd/internal/agent","Test":"TestC","Elapsed":7}
{"Action":"fail","Package":"github.com/evictd/evictd/internal/agent","Elapsed":9}
{"Action":"fail","Package":"github.com/evictd/evictd/pkg/rank","Elapsed":0}
{"Action":"pass","Packa`

func written(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "inner"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"a.json": events, failedFile: ""} {
		if err := os.WriteFile(filepath.Join(dir, "inner", name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestReadTests(t *testing.T) {
	got, err := readTests(written(t))
	if err != nil {
		t.Fatal(err)
	}
	if got.passed != 2 || got.failed != 2 || got.skipped != 1 {
		t.Errorf("passed %d, failed %d, skipped %d; want 2, 2, 1", got.passed, got.failed, got.skipped)
	}
	if want := "internal/agent.TestC pkg/rank"; strings.Join(got.failures, " ") != want {
		t.Errorf("failures %q, want %q: a package counts where none of its tests did", got.failures, want)
	}
}

func TestTable(t *testing.T) {
	got, err := readTests(written(t))
	if err != nil {
		t.Fatal(err)
	}
	text := table([]stage{{name: "verify", failed: true, seconds: 40}, {name: "test", tests: got, failed: true, seconds: 61}})
	want := `
stage            tests  failed  skipped  seconds  result
verify               0       0        0       40  FAILED
test                 5       2        1       61  FAILED

failed:
  test: make inner
  test: internal/agent.TestC
  test: pkg/rank

slowest:
     7.0 s  internal/agent.TestC
     2.5 s  internal/agent.TestA
     0.0 s  internal/agent.TestB
`
	if text != want {
		t.Errorf("got\n%s\nwant\n%s", text, want)
	}
}

func TestLine(t *testing.T) {
	got := line("e2e-all", "3fe4ffa92", "6.1.0", time.Date(2026, 11, 25, 3, 4, 0, 0, time.UTC), []stage{
		{name: "e2e", tests: tests{passed: 30, skipped: 2}, seconds: 900}, {name: "lint", failed: true, seconds: 30},
	})
	const want = "| e2e-all | 3fe4ffa92 | 2026-11-25 03:04 | 30 | 1 | 2 | 930 | 6.1.0 | make lint |"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
