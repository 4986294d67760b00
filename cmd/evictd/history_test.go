package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/evictd/evictd/internal/history"
	"github.com/evictd/evictd/internal/status"
)

// recordOf writes a record of the worked example, in which an incident begins.
func recordOf(t *testing.T) (dir string) {
	t.Helper()
	d, err := status.Read(strings.NewReader(readFile(t, example)))
	if err != nil {
		t.Fatal(err)
	}
	d.Ranking, d.Decisions, d.Time = nil, nil, time.Now().UTC()
	dir = t.TempDir()
	w, err := history.NewWriter(dir, history.Options{Now: time.Now, MaxSize: 1 << 20, Complete: func(*status.Document) {}, Failed: func(err error) { t.Error(err) }})
	if err != nil {
		t.Fatal(err)
	}
	w.Document(d)
	_, _ = w.Write([]byte(`{"level":"warn","msg":"incident began","incident":"memory.available-x","signal":"memory.available","available":1048576,"since":"` +
		d.Time.Format(time.RFC3339Nano) + `"}`)) // never an error
	w.Start()()
	return dir
}

// A record is read where it was written, and where it was exported to, with the same answers; what is damaged is said.
func TestRecordIsRead(t *testing.T) {
	t.Parallel()
	dir := recordOf(t)
	file := filepath.Join(t.TempDir(), "exported")
	if code, stdout, stderr := call(t, "record", "export", "--record", dir, "-o", file); code != exitFine || stdout+stderr != "" {
		t.Fatalf("code %d, %q, %q", code, stdout, stderr)
	}
	for _, args := range [][]string{{"incidents"}, {"incidents", "-o", "json"}, {"incidents", "show", "memory.available-x"}, {"rank", "--at", "0s"}} {
		code, here, stderr := call(t, append(args, "--record", dir)...)
		_, there, _ := call(t, append(args, "--record", file)...)
		if code != exitFine || stderr != "" || here != there || !strings.Contains(here, map[bool]string{true: "worker-1", false: "memory.available-x"}[args[0] == "rank"]) {
			t.Errorf("%q: code %d, stderr %q, prints\n%s\nand of the export\n%s", args, code, stderr, here, there)
		}
	}
	if _, ranked, _ := call(t, "rank", "--at", "0s", "--record", dir); strings.Join(strings.Split(ranked, "\n")[1:], "\n") != strings.Join(strings.Split(readFile(t, "testdata/rank/table.txt"), "\n")[1:], "\n") {
		t.Errorf("the record ranks\n%s", ranked)
	}
	if code, stdout, _ := call(t, "incidents", "--record", dir, "--since", "2999-01-01T00:00:00Z"); code != exitFine || stdout != "no incident since 2999-01-01T00:00:00Z\n" {
		t.Errorf("code %d, %q", code, stdout)
	}
	whole := []byte(readFile(t, file))
	if err := os.WriteFile(file, append(bytes.Clone(whole), whole[:50]...), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, stdout, stderr := call(t, "incidents", "--record", file); code != exitFine || !strings.Contains(stdout, "memory.available-x") || !strings.Contains(stderr, "50 damaged bytes") {
		t.Errorf("code %d, %q, %q", code, stdout, stderr)
	}
}
