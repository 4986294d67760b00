package audit

import (
	"os"
	"path/filepath"
	"testing"
)

func TestLogLeavesAnUnfinishedLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	line := `{"stage":"ResponseComplete","requestReceivedTimestamp":"2026-01-02T03:04:05.678901Z","verb":"create",` +
		`"objectRef":{"resource":"pods","subresource":"eviction","namespace":"bench","name":"a"}}` + "\n"
	log := Log{Path: path}
	for i, c := range []struct {
		text string
		want int
	}{{line[:40], 0}, {line, 1}, {line, 0}, {line + "no event\n" + line, 1}} {
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		events, err := log.Next()
		if (err != nil) != (i == 3) || len(events) != c.want {
			t.Errorf("step %d: %d events, want %d; error %v", i, len(events), c.want, err)
		}
		for _, e := range events {
			if !e.Evicts() || e.ObjectRef.Name != "a" {
				t.Errorf("step %d: %+v", i, e)
			}
		}
	}
}
