package agent

import (
	"github.com/evictd/evictd/internal/cooldown"
	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/execute"
	"github.com/evictd/evictd/pkg/pressure"
)

// drawJitter decides how long the first soft eviction of an incident waits, once the pods are
// known: many nodes may come to know theirs at the same moment.
func (a *Agent) drawJitter(p *pressure.Pressure) {
	if a.options.Pods.Synced() && a.podsStale() == nil {
		a.cooldown.Draw(decide.CooldownOf(p, a.incidentOf(p)), p.SampleTime)
	}
}

// learnWaits passes the outcome of a plan to the cooldown. A delete without the right to it does
// not count against its pod.
func (a *Agent) learnWaits(d *decide.Decision, r *execute.Report) cooldown.Report {
	learnt := cooldown.Report{
		Signal: d.Pressure.Threshold.Signal, Incident: a.incidentOf(&d.Pressure), Decided: d.Time,
		Stale: r.Stale, Unread: r.Unread, NoPermit: r.NoPermit, Unknown: r.PermitsUnknown,
		BypassFailed: d.BestEffort != decide.BestEffortNone && d.BestEffort != decide.BestEffortDeleted,
	}
	for _, shared := range r.Shared {
		learnt.Shared = append(learnt.Shared, cooldown.Answer(shared))
	}
	for i := range d.Attempts {
		if attempt := &d.Attempts[i]; !attempt.Result.NoRight || attempt.Past == nil {
			learnt.Answers = append(learnt.Answers, cooldown.Answer{Pod: attempt.Entry.Pod, Result: attempt.Result})
		}
	}
	return learnt
}

// noneLeft reports whether a plan was made without a candidate left: then the pods that were tried
// in its pressure may be tried again.
func noneLeft(p *decide.Plan) bool {
	ranking := &p.Decision.Ranking
	return len(p.Candidates) == 0 && len(ranking.Candidates)+len(ranking.Protected) > 0
}
