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
	if a.learn(&r, now); len(r.Attempts) > 0 {
		r.Hold = decide.HoldNone
	}
	a.record(&r.Decision)
}

// record hands a decision over. One without a request is a hold, or was canceled before its first one and is
// not recorded.
func (a *Agent) record(d *decide.Decision) {
	if len(d.Attempts) > 0 || d.Hold != decide.HoldNone {
		a.options.Recorder.Decision(d)
	}
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

// reconcile resolves requests in doubt that were carried out, by what the watch reports.
func (a *Agent) reconcile(carriedOut []*decide.InDoubt) {
	for _, open := range carriedOut {
		if a.planned == nil && !a.victims.Terminates(open.UID()) { // by one before in this loop
			a.takeReport(open.CarriedOut(time.Now(), "the watch of the pods", a.victims.All()))
		}
	}
}
