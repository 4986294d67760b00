package memories

import (
	"time"

	"github.com/evictd/evictd/internal/cooldown"
	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/incident"
)

// Learn takes what became of a plan, or of a request in doubt, and keeps it: the victim is booked
// and counted, and the refusals are remembered.
func (m *Memories) Learn(d *decide.Decision, r *decide.Report, now time.Time) {
	learnt := m.reportOf(d, r)
	m.Cooldown.Observe(&learnt, now)
	if victim := m.Victims.Learn(d, r, now); victim != nil {
		pod, simulated := victim.Entry.Pod, victim.Result.Outcome.Simulated()
		m.Incidents.Add(d.Incident, incident.Victim{Pod: pod.Key(), UID: pod.UID, DryRun: simulated})
		m.Cooldown.Accept(pod.OwnerUID, simulated, now)
	}
	m.keeper.Answered()
}

// reportOf returns the outcome of a plan as the cooldown takes it. A delete without the right to it
// does not count against its pod.
func (m *Memories) reportOf(d *decide.Decision, r *decide.Report) cooldown.Report {
	learnt := cooldown.Report{
		Signal: d.Pressure.Threshold.Signal, Incident: m.IncidentOf(&d.Pressure), Decided: d.Time,
		Stale: r.Stale, Unread: r.Unread,
		BypassFailed: d.BestEffort != decide.BestEffortNone && d.BestEffort != decide.BestEffortDeleted,
	}
	for _, shared := range r.Shared {
		learnt.Shared = append(learnt.Shared, cooldown.Answer{Pod: shared.Entry.Pod, Result: shared.Result})
	}
	for i := range d.Attempts {
		if attempt := &d.Attempts[i]; !attempt.Result.NoRight || attempt.Bypassed == nil {
			learnt.Answers = append(learnt.Answers, cooldown.Answer{Pod: attempt.Entry.Pod, Result: attempt.Result})
		}
	}
	return learnt
}
