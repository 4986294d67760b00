package record_test

import (
	"bufio"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"go.uber.org/zap"

	"github.com/evictd/evictd/internal/record"
)

// A log that is not read stops nothing. Once it is read, the lines that are there are whole and in
// order, and one says how many are missing.
func TestFaultALogThatIsNotReadStopsNothing(t *testing.T) {
	t.Parallel()
	reader, writer := io.Pipe()
	logger := record.NewQueuedLogger("info", "json", writer)
	const logged = 5000
	for i := range logged {
		logger.Info(strings.Repeat("x", 1000), zap.Int("number", i))
	}
	lines := bufio.NewScanner(reader)
	read, dropped, last := 0, 0, -1
	for read+dropped < logged && lines.Scan() { // all that is missing is told
		var line struct {
			Message string `json:"msg"`
			Number  int    `json:"number"`
			Lines   int    `json:"lines"`
		}
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			t.Fatalf("line %d: %v", read, err)
		}
		if line.Lines > 0 {
			dropped += line.Lines
			if !strings.Contains(line.Message, "the log was not read") {
				t.Errorf("dropped lines are told by %q", line.Message)
			}
			continue
		}
		if line.Number <= last {
			t.Fatalf("line %d after line %d", line.Number, last)
		}
		read, last = read+1, line.Number
	}
	if read+dropped != logged || read < 500 || read > 2500 {
		t.Errorf("%d lines were read and %d dropped, of %d", read, dropped, logged)
	}
	logger.Info("a line that is not read")
	if err := logger.Sync(); err != nil { // waits a second, and no longer
		t.Error(err)
	}
	if err := reader.Close(); err != nil {
		t.Error(err)
	}
}

// What was logged before is there after a Sync.
func TestSyncHandsOnWhatIsQueued(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	logger := record.NewQueuedLogger("info", "console", &out)
	for range 100 {
		logger.Info("a line")
	}
	if err := logger.Sync(); err != nil {
		t.Error(err)
	}
	if n := strings.Count(out.String(), "a line"); n != 100 {
		t.Errorf("%d lines, want 100", n)
	}
}
