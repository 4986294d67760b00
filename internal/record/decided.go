package record

import (
	"time"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/pkg/pressure"
)

// HoldAgainAfter is how long a decision to hold is not recorded again while nothing about it changes.
// Near a threshold there are a hundred ticks a second; one line for each would bury the one that
// matters.
const HoldAgainAfter = 30 * time.Second

// Host reports what uses the node's memory. Its methods do not wait: they read in the background.
type Host interface {
	// MemoryUsed returns where the memory is, in bytes; nil while that is not known.
	MemoryUsed(now time.Time) decide.Breakdown
	// Processes returns the largest processes outside the pods by a reading of the last half minute, nil
	// while they are not known, and whether one is under way, which takes a few seconds at most.
	Processes(now time.Time) (largest []decide.Process, pending bool)
}

// hold is of what the last hold is remembered.
type hold pressure.Signal

// Number gives a decision its ID, before its plan is carried out, whose intents name it. One that
// is not recorded leaves a gap.
func (r *Recorder) Number(d *decide.Decision) { d.ID = r.lastID.Add(1) }

// Decision writes a decision down everywhere: each one that sent a request, and a hold when it begins,
// changes, or has lasted for [HoldAgainAfter]. It is numbered where it has no number yet. The recorder
// keeps nothing that belongs to the decision.
func (r *Recorder) Decision(d *decide.Decision) {
	if !r.isNews(d) {
		return
	}
	if d.ID == 0 {
		r.Number(d)
	}
	if r.asksHost(&d.Pressure) {
		d.Breakdown = r.settings.Host.MemoryUsed(d.Time)
	}
	line := decisionLine(d)
	r.logger.Log(levelOf(d), "decision", line...)
	r.ring.add(d, line)
	r.metrics.decided(d)
	r.writeEvents(d)
}

// isNews reports whether a decision is to be recorded. What uses memory outside the pods is waited for,
// where no eviction would help: then a later decision is recorded in its place.
func (r *Recorder) isNews(d *decide.Decision) (due bool) {
	pending, signal := false, hold(d.Pressure.Threshold.Signal)
	if d.Hold.LacksCandidates() && r.asksHost(&d.Pressure) {
		d.Outside, pending = r.settings.Host.Processes(d.Time)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if d.Verb != decide.Held {
		r.said.end(signal)
		return true
	}
	if !pending {
		_, due = r.said.say(signal, string(d.Hold)+d.Pressure.Threshold.Kind(), d.Time, pace{again: HoldAgainAfter})
	}
	return due
}

// readHost has the host read what its memory is used by, where a pressure is about that: it is known
// then when a decision is recorded.
func (r *Recorder) readHost(verdict *pressure.Verdict) {
	for i := range verdict.Pressures {
		if p := &verdict.Pressures[i]; r.asksHost(p) {
			r.settings.Host.MemoryUsed(p.SampleTime)
		}
	}
}

// asksHost reports whether a pressure is about memory of the whole node.
func (r *Recorder) asksHost(p *pressure.Pressure) bool {
	signal := p.Threshold.Signal
	return r.settings.Host != nil && signal.Kind() == pressure.MemoryKind && signal != pressure.AllocatableMemoryAvailable
}
