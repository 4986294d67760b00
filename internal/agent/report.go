package agent

import (
	"time"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/incident"
)

// takeReport takes what became of a plan, or of a request in doubt: it has it remembered, and records the
// decision, which has a hold only where no request was sent. A request in doubt that may have ended its pod has.
func (a *Agent) takeReport(r decide.Report) {
	now := time.Now()
	if a.planned = nil; r.Left != nil && r.Left.MayBeOurs(now) {
		r = r.Left.CarriedOut(now, "reading the pod again", a.victims.All())
	}
	a.learn(&r, now)
	switch {
	case len(r.Attempts) > 0:
		r.Hold = decide.HoldNone
	case r.Hold == decide.HoldNone: // it was canceled before its first request, and is not recorded
		return
	}
	a.options.Recorder.Decision(&r.Decision)
}

// learn takes what became of a plan, or of a request in doubt, and keeps it: the victim is followed
// and counted, and the refusals are remembered.
func (a *Agent) learn(r *decide.Report, now time.Time) {
	victim := a.victims.Learn(r, now)
	a.cooldown.Observe(r, now)
	if victim != nil {
		pod, simulated := victim.Entry.Pod, victim.Result.Outcome.Simulated()
		a.incidents.Add(r.Incident, incident.Victim{Pod: pod.Key(), UID: pod.UID, DryRun: simulated})
		a.cooldown.Accept(pod.OwnerUID, simulated, now)
	}
	a.changed = true
}
