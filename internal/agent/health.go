package agent

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/evictd/evictd/pkg/pressure"
)

// stalledAfter is how long the loop may make no progress before Alive says so. It
// is far above the longest pause between two samples.
const stalledAfter = 30 * time.Second

// health is what the probes report. It is safe for concurrent use.
type health struct {
	mu       sync.Mutex // guards all below
	progress time.Time  // when the last tick began; the zero time before the loop runs
	reading  error      // why the last sample was not complete; nil when it was
}

// begin notes that the loop runs: a first tick that hangs should be noticed too.
func (h *health) begin(now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.progress, h.reading = now, errors.New("no sample has been read yet")
}

// observe takes a tick that began at that time.
func (h *health) observe(now time.Time, sample *pressure.Sample, verdict *pressure.Verdict) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.progress = now
	switch {
	case len(verdict.Unknown) > 0:
		faults := make([]error, 0, len(verdict.Unknown))
		for _, signal := range verdict.Unknown {
			faults = append(faults, fmt.Errorf("%v has no figure, and no pod is evicted for %s until it has one: %w",
				signal, needsReading(signal), sample.Of(signal).Err))
		}
		h.reading = errors.Join(faults...)
	case !verdict.Stale:
		h.reading = nil
	}
}

// alive returns an error when the loop has made no progress for too long.
func (h *health) alive(now time.Time) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.progress.IsZero() && now.Sub(h.progress) > stalledAfter {
		return fmt.Errorf("no tick for %v", now.Sub(h.progress).Round(time.Second))
	}
	return nil
}

// ready returns an error until a sample was complete.
func (h *health) ready() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.progress.IsZero() {
		return errors.New("the loop does not run yet")
	}
	return h.reading
}

// needsReading names what no pod is evicted for while a signal is unknown.
func needsReading(signal pressure.Signal) string {
	if signal.Kind() == pressure.MemoryKind {
		return "memory"
	}
	return "it"
}
