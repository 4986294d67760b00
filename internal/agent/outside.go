package agent

import (
	"time"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/pkg/pressure"
)

// Host tells what the node's memory is used by. Its methods do not wait: they read in the
// background, and answer for an incident by the last reading that was made in it.
type Host interface {
	// MemoryUsed returns where the memory is, in bytes; nil while that is not known.
	MemoryUsed(incident string, now time.Time) decide.Breakdown
	// Processes returns the largest processes outside the pods, nil while they are not known,
	// and whether a reading is under way, which takes a few seconds at most.
	Processes(incident string, now time.Time) (largest []decide.Process, pending bool)
}

// noteMemory adds to a decision what the node's memory is used by, as far as that is known.
func (a *Agent) noteMemory(d *decide.Decision) {
	if a.asksHost(d) && d.Breakdown == nil {
		d.Breakdown = a.options.Host.MemoryUsed(d.Incident, d.Time)
	}
}

// noteOutside adds to a hold what uses the memory outside the pods, where no eviction would
// help. It reports whether the hold should be recorded later, when that has been read.
func (a *Agent) noteOutside(d *decide.Decision, why decide.Hold) (pending bool) {
	if a.asksHost(d) && why.LacksCandidates() {
		d.Outside, pending = a.options.Host.Processes(d.Incident, d.Time)
	}
	return pending
}

// asksHost reports whether a decision is about memory of the whole node.
func (a *Agent) asksHost(d *decide.Decision) bool {
	signal := d.Pressure.Threshold.Signal
	return a.options.Host != nil && signal.Kind() == pressure.MemoryKind && signal != pressure.AllocatableMemoryAvailable
}
