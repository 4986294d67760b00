package agent

import (
	"time"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/pkg/pressure"
)

// SayAgainAfter is how often a decision to hold is recorded again while nothing about it changes.
// Near a threshold there are a hundred ticks a second; one line for each would bury the one that
// matters.
const SayAgainAfter = 30 * time.Second

// Host reports what uses the node's memory. Its methods do not wait: they read in the background,
// and answer for an incident by the last reading that was made in it.
type Host interface {
	// MemoryUsed returns where the memory is, in bytes; nil while that is not known.
	MemoryUsed(incident string, now time.Time) decide.Breakdown
	// Processes returns the largest processes outside the pods, nil while they are not known,
	// and whether a reading is under way, which takes a few seconds at most.
	Processes(incident string, now time.Time) (largest []decide.Process, pending bool)
}

// journal is the way of all decisions to the record: each one that acted, and a hold when it begins,
// changes, or has lasted for a while. It is not safe for concurrent use.
type journal struct {
	to     func(d *decide.Decision)
	host   Host // nil: no decision contains what uses the node's memory
	lastID uint64
	holds  [pressure.SignalCount]said
}

// said is the last hold that was recorded for a signal; the zero value is none.
type said struct {
	why  decide.Hold
	hard bool
	at   time.Time
}

// number gives a decision its ID, before its plan is carried out, whose intents name it. One that
// is not recorded leaves a gap.
func (j *journal) number(d *decide.Decision) {
	j.lastID++
	d.ID = j.lastID
}

// hold records that no pod is evicted by a decision, and why, unless that was said a moment ago.
// What uses memory outside the pods is waited for, where no eviction would help: then a later decision
// is recorded in its place.
func (j *journal) hold(d *decide.Decision) {
	now := said{why: d.Hold, hard: d.Pressure.Threshold.Hard, at: d.Time}
	last := &j.holds[d.Pressure.Threshold.Signal]
	if last.why == now.why && last.hard == now.hard && now.at.Sub(last.at) < SayAgainAfter {
		return
	}
	if d.Hold.LacksCandidates() && j.asksHost(&d.Pressure) {
		outside, pending := j.host.Processes(d.Incident, d.Time)
		if pending {
			return
		}
		d.Outside = outside
	}
	*last = now
	d.Verb = decide.Held
	j.record(d)
}

// reported records a decision whose plan was carried out: its attempts, or why no request was sent.
// One that was canceled before its first request is not recorded.
func (j *journal) reported(d *decide.Decision) {
	switch {
	case len(d.Attempts) > 0:
		j.record(d)
	case d.Hold != decide.HoldNone:
		j.hold(d)
	}
}

// record hands a decision over. It is numbered where it has no number yet: most decisions only
// say again what was said, and need none.
func (j *journal) record(d *decide.Decision) {
	if d.ID == 0 {
		j.number(d)
	}
	if d.Verb != decide.Held {
		j.holds[d.Pressure.Threshold.Signal] = said{}
	}
	if j.asksHost(&d.Pressure) {
		d.Breakdown = j.host.MemoryUsed(d.Incident, d.Time)
	}
	j.to(d)
}

// follow has the host read what its memory is used by, where a pressure is about that: it is known
// then when a decision is recorded.
func (j *journal) follow(p *pressure.Pressure, incident string) {
	if j.asksHost(p) {
		j.host.MemoryUsed(incident, p.SampleTime)
	}
}

// asksHost reports whether a pressure is about memory of the whole node.
func (j *journal) asksHost(p *pressure.Pressure) bool {
	signal := p.Threshold.Signal
	return j.host != nil && signal.Kind() == pressure.MemoryKind && signal != pressure.AllocatableMemoryAvailable
}
