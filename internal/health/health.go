// Package health answers the probes from the ticks of the loop.
package health

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/evictd/evictd/pkg/pressure"
)

// StalledAfter is how long the loop may make no progress before [Health.Alive] says so. It is far
// above the longest pause between two samples.
const StalledAfter = 30 * time.Second

// Pods knows the node's pods.
type Pods interface {
	// Synced reports whether the list is complete.
	Synced() bool
	// Stale returns why a list that was complete can no longer be relied on; nil while it can.
	Stale() error
}

// Health is what the probes report. It is safe for concurrent use.
type Health struct {
	pods Pods

	mu       sync.Mutex // guards all below
	progress time.Time  // when the last tick began; the zero time before the loop runs
	reading  error      // why the last sample was not complete; nil when it was
}

// New returns the health of a loop that does not run yet.
func New(pods Pods) *Health { return &Health{pods: pods} }

// Begin notes that the loop runs: a first tick that hangs should be noticed too.
func (h *Health) Begin(now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.progress, h.reading = now, errors.New("no sample has been read yet")
}

// Observe takes a tick that began at that time, with what it read.
func (h *Health) Observe(now time.Time, sample *pressure.Sample, verdict *pressure.Verdict) {
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

// Alive returns an error when the loop has made no progress for [StalledAfter].
func (h *Health) Alive(now time.Time) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.progress.IsZero() && now.Sub(h.progress) > StalledAfter {
		return fmt.Errorf("no tick for %v", now.Sub(h.progress).Round(time.Second))
	}
	return nil
}

// Ready returns an error until the node's pods are known and the last sample was complete, and while
// the list of the pods has grown too old.
func (h *Health) Ready() error {
	if !h.pods.Synced() {
		return errors.New("the node's pods are not known yet")
	}
	if err := h.pods.Stale(); err != nil {
		return fmt.Errorf("no pod is evicted: %w", err)
	}
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
