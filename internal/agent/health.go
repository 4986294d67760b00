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
	at      time.Time // when it began; when the agent was made, before the first
	reading error     // why the last sample was not complete; nil when it was
}

// ticked notes a tick that began at that time, with what it read, and keeps it for the record. A stale sample tells
// nothing new.
func (a *Agent) ticked(started time.Time, sample *pressure.Sample, verdict *pressure.Verdict) {
	var reading error
	if verdict.Stale {
		reading = a.progress.Load().reading
	}
	for _, signal := range verdict.Unknown {
		reading = errors.Join(reading, fmt.Errorf("%v has no figure, and no pod is evicted for its resource until it has one: %w",
			signal, sample.Of(signal).Err))
	}
	a.progress.Store(&progress{started, reading})
	a.documents.sample = *sample
	if !verdict.Stale {
		a.documents.verdict = *verdict
	}
	a.options.Recorder.Tick(started, time.Since(started))
	a.keep(started)
}

// Alive returns an error when the loop has made no progress for [StalledAfter]. It may be called on any
// goroutine.
func (a *Agent) Alive(now time.Time) error {
	if since := now.Sub(a.progress.Load().at); since > StalledAfter {
		return fmt.Errorf("no tick for %v", since.Round(time.Second))
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
	return a.progress.Load().reading
}
