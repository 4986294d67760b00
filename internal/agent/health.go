package agent

import (
	"errors"
	"fmt"
	"time"

	"github.com/evictd/evictd/pkg/pressure"
)

// StalledAfter is how long the loop may make no progress before [Agent.Alive] says so. It is far
// above the longest pause between two samples.
const StalledAfter = 30 * time.Second

// progress is what the probes need of the last tick.
type progress struct {
	at      time.Time // when it began
	reading error     // why the last sample was not complete; nil when it was
}

// began notes that the loop runs: a first tick that hangs should be noticed too.
func (a *Agent) began() {
	a.progress.Store(&progress{at: a.options.Clock.Now(), reading: errors.New("no sample has been read yet")})
}

// ticked notes a tick that began at that time, with what it read.
func (a *Agent) ticked(started time.Time, sample *pressure.Sample, verdict *pressure.Verdict) {
	now := progress{at: started}
	if before := a.progress.Load(); before != nil && verdict.Stale {
		now.reading = before.reading
	}
	for _, signal := range verdict.Unknown {
		about := "it"
		if signal.Kind() == pressure.MemoryKind {
			about = "memory"
		}
		now.reading = errors.Join(now.reading, fmt.Errorf("%v has no figure, and no pod is evicted for %s until it has one: %w",
			signal, about, sample.Of(signal).Err))
	}
	a.progress.Store(&now)
	a.options.Recorder.Tick(started, a.options.Clock.Since(started))
}

// Alive returns an error when the loop has made no progress for [StalledAfter]. It may be called on any
// goroutine.
func (a *Agent) Alive(now time.Time) error {
	if last := a.progress.Load(); last != nil && now.Sub(last.at) > StalledAfter {
		return fmt.Errorf("no tick for %v", now.Sub(last.at).Round(time.Second))
	}
	return nil
}

// Ready returns an error until the node's pods are known and the last sample was complete, and while
// the list of the pods has grown too old. It may be called on any goroutine.
func (a *Agent) Ready() error {
	if !a.options.Pods.Synced() {
		return errors.New("the node's pods are not known yet")
	}
	if err := a.options.Pods.Stale(); err != nil {
		return fmt.Errorf("no pod is evicted: %w", err)
	}
	last := a.progress.Load()
	if last == nil {
		return errors.New("the loop does not run yet")
	}
	return last.reading
}
