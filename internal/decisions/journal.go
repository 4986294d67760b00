package decisions

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

// Journal is the way of all decisions to the record. It is not safe for concurrent use.
type Journal struct {
	record func(d *decide.Decision)
	host   Host
	lastID uint64
	holds  [pressure.SignalCount]hold
}

// hold is the last hold that was recorded for a signal; the zero value is none.
type hold struct {
	why  decide.Hold
	hard bool
	at   time.Time
}

// New returns a journal that passes decisions to record. Host may be nil: then no decision contains
// what uses the node's memory.
func New(record func(d *decide.Decision), host Host) *Journal {
	return &Journal{record: record, host: host}
}

// Number gives a decision its ID, before its plan is carried out, whose intents name it. One that
// is not recorded leaves a gap.
func (j *Journal) Number(d *decide.Decision) {
	j.lastID++
	d.ID = j.lastID
}

// Hold records that no pod is evicted by a decision, and why, unless that was said a moment ago.
// Why is not HoldNone. What uses memory outside the pods is waited for, where no eviction would
// help: then a later decision is recorded in its place.
func (j *Journal) Hold(d *decide.Decision, why decide.Hold, detail string) {
	now := hold{why: why, hard: d.Pressure.Threshold.Hard, at: d.Time}
	last := &j.holds[d.Pressure.Threshold.Signal]
	if last.why == now.why && last.hard == now.hard && now.at.Sub(last.at) < SayAgainAfter {
		return
	}
	if why.LacksCandidates() && j.asksHost(&d.Pressure) {
		outside, pending := j.host.Processes(d.Incident, d.Time)
		if pending {
			return
		}
		d.Outside = outside
	}
	*last = now
	d.Verb, d.Hold, d.Detail = decide.Held, why, detail
	j.Record(d)
}

// Reported records a decision whose plan was carried out: its attempts, or why no request was sent.
// One that was canceled before its first request is not recorded.
func (j *Journal) Reported(d *decide.Decision, why decide.Hold, detail string) {
	switch {
	case len(d.Attempts) > 0:
		j.Record(d)
	case why != decide.HoldNone:
		j.Hold(d, why, detail)
	}
}

// Record hands a decision over. It is numbered where it has no number yet: most decisions only
// say again what was said, and need none.
func (j *Journal) Record(d *decide.Decision) {
	if d.ID == 0 {
		j.Number(d)
	}
	if d.Verb != decide.Held {
		j.holds[d.Pressure.Threshold.Signal] = hold{}
	}
	if j.asksHost(&d.Pressure) {
		d.Breakdown = j.host.MemoryUsed(d.Incident, d.Time)
	}
	j.record(d)
}

// Follow has the host read what its memory is used by, where a pressure is about that: it is known
// then when a decision is recorded.
func (j *Journal) Follow(p *pressure.Pressure, incident string) {
	if j.asksHost(p) {
		j.host.MemoryUsed(incident, p.SampleTime)
	}
}

// asksHost reports whether a pressure is about memory of the whole node.
func (j *Journal) asksHost(p *pressure.Pressure) bool {
	signal := p.Threshold.Signal
	return j.host != nil && signal.Kind() == pressure.MemoryKind && signal != pressure.AllocatableMemoryAvailable
}
