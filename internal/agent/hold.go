package agent

import (
	"time"

	"github.com/evictd/evictd/internal/decide"
)

// sayAgainAfter is how often a decision to hold is recorded again while nothing
// about it changes. Near a threshold there are a hundred ticks a second; one line
// for each would bury the one that matters.
const sayAgainAfter = 30 * time.Second

// repetition is the last hold that was recorded for a signal.
type repetition struct {
	hold decide.Hold
	hard bool
	at   time.Time
}

// holdWith records that nobody is evicted by a decision, and why.
func (a *Agent) holdWith(d *decide.Decision, why decide.Hold, detail string) {
	signal := d.Pressure.Threshold.Signal
	before, said := a.repeated[signal]
	now := repetition{hold: why, hard: d.Pressure.Threshold.Hard, at: d.Time}
	if said && before.hold == now.hold && before.hard == now.hard && now.at.Sub(before.at) < sayAgainAfter {
		return
	}
	if a.noteOutside(d, why) {
		return
	}
	a.repeated[signal] = now
	d.Verb, d.Hold, d.Detail = decide.Held, why, detail
	a.record(d)
}

// record hands a decision over.
func (a *Agent) record(d *decide.Decision) {
	if d.ID == 0 {
		a.number(d)
	}
	if d.Verb != decide.Held {
		delete(a.repeated, d.Pressure.Threshold.Signal)
	}
	a.noteMemory(d)
	a.options.Recorder.Decision(d)
}

// number gives a decision its ID: where it is recorded, because near a threshold most ticks
// only say again what was said, or before its walk, whose intents name it. A walk that ends
// before its first request may leave a gap.
func (a *Agent) number(d *decide.Decision) {
	a.lastID++
	d.ID = a.lastID
}
