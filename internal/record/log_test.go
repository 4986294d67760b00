package record_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/nodepods"
	"github.com/evictd/evictd/internal/record"
	"github.com/evictd/evictd/pkg/pressure"
)

// Nothing is sampled, which zap's own production logger fails: it drops equal messages after the hundredth in a second.
// What was logged before is there after a Sync.
func TestNewQueuedLogger(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	logger := record.NewQueuedLogger("warn", "console", &out)
	for range 1000 {
		logger.Info("quiet")
		logger.Warn("loud")
	}
	if err := logger.Sync(); err != nil {
		t.Error(err)
	}
	if text := out.String(); strings.Contains(text, "quiet") || strings.Count(text, "\twarn\tloud\n") != 1000 {
		t.Errorf("console log at warn = %q", text)
	}
}

func TestTheRingKeepsEvictionsThroughAnHourOfHolds(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	keeps := func(want ...string) {
		t.Helper()
		var kept []string
		for _, text := range r.LastDecisions() {
			kept = append(kept, strings.Join(regexp.MustCompile(`"(?:time|verb|hold)":"[^"]*"`).FindAllString(string(text), -1), ","))
		}
		if diff := cmp.Diff(want, kept); diff != "" {
			t.Errorf("kept, the newest first (-want +got):\n%s", diff)
		}
	}
	at := func(after time.Duration) string { return start.Add(after).Format(`"time":"` + time.RFC3339Nano + `"`) }
	acted := decision()
	acted.Pressure = pressureOn(pressure.NodeFSInodesFree, pressure.Absolute(1000), 900, 60000)
	r.Decision(acted)
	for range 500 {
		r.Decision(held(decide.HoldBackingOff))
	}
	keeps(at(499*record.AgainAfter)+`,"verb":"Held","hold":"BackingOff"`, at(0)+`,"verb":"Acted"`)
	var last []string
	for i := range 100 {
		d := decision()
		d.Time = start.Add(time.Duration(i) * time.Minute)
		r.Decision(d)
		last = append([]string{at(time.Duration(i)*time.Minute) + `,"verb":"Acted"`}, last...)
	}
	keeps(last[:64]...)
}

func TestMethodsMayBeCalledFromAnyGoroutine(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var all sync.WaitGroup
	for _, task := range []func(int){
		func(int) { r.Recorder.Decision(decision()) },
		func(int) { d := decision(); r.Intent(d, &d.Attempts[0]) },
		func(i int) {
			s := sampleOf(start.Add(time.Duration(i)))
			if i%2 == 0 {
				s.Observations[0] = unknown("x")
			}
			r.Sample(s, &pressure.Verdict{Pressures: []pressure.Pressure{decision().Pressure}})
		},
		func(int) { r.Tick(start, time.Millisecond) },
		func(i int) { r.Ledger(start, decision().InFlight, i, i) },
		func(int) { r.Failed("Usage", errors.New("x")) },
		func(int) { r.InForce([]pressure.Threshold{decision().Pressure.Threshold}, true) },
		func(int) { r.Refused(errors.New("x"), "") },
		func(int) { r.VictimEnded(ended()) },
		func(int) { r.OOMKilled(&nodepods.Pod{}, nodepods.OOMKilled{}) },
		func(int) { r.LastDecisions() },
		func(int) {
			if _, err := r.registry.Gather(); err != nil {
				t.Error(err)
			}
		},
	} {
		all.Go(func() {
			for i := range 50 {
				task(i)
			}
		})
	}
	all.Wait()
}

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
