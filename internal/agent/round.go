package agent

import (
	"time"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/pkg/evict"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
)

// triedFor is how long a pod that a round has tried waits for the others at most: as long as the
// longest back-off after a refusal.
const triedFor = 10 * time.Minute

// round is what a row of walks in one incident has been refused, each of which but the last
// ended for its age. A pod that was tried is not retried before the round ends: back-offs begin
// at seconds, and the first of the ranking would be tried again and again and the last never.
// The zero value has tried no pod.
type round struct {
	incident string // its ID
	refused  map[string]tried
}

// tried is a refusal, and until when it keeps its pod out of the round.
type tried struct {
	outcome evict.Outcome
	until   time.Time
}

// roundOf returns the round about a pressure's signal.
func (a *Agent) roundOf(p *pressure.Pressure) *round {
	r := &a.rounds[p.Threshold.Signal]
	if id := a.incidentOf(p); r.incident != id {
		*r = round{incident: id}
	}
	return r
}

// waits returns what a pod was refused with, where it is not asked for now: it backs off,
// or the round has asked for it.
func (a *Agent) waits(pod *rank.Pod, p *pressure.Pressure) (evict.Outcome, bool) {
	if last, is := a.roundOf(p).refused[pod.UID]; is && p.SampleTime.Before(last.until) {
		return last.outcome, true
	}
	return a.backoff.Waits(refusedOf(pod), p.SampleTime)
}

// noteRound takes a walk's answers where it ended for its age, and ends the round where it
// did not.
func (a *Agent) noteRound(d *decide.Decision, stale bool) {
	r := a.roundOf(&d.Pressure)
	if !stale {
		r.refused = nil
		return
	}
	if r.refused == nil {
		r.refused = map[string]tried{}
	}
	for i := range d.Attempts {
		attempt := &d.Attempts[i]
		r.refused[attempt.Entry.Pod.UID] = tried{attempt.Result.Outcome, d.Time.Add(triedFor)}
	}
}
