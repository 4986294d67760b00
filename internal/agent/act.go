package agent

import (
	"context"
	"slices"
	"time"

	"github.com/evictd/evictd/internal/cooldown"
	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/execute"
	"github.com/evictd/evictd/internal/incident"
	"github.com/evictd/evictd/internal/nodepods"
)

// newExecutor returns the executor of the agent's plans. What it calls runs on its goroutine.
func (a *Agent) newExecutor() *execute.Executor {
	return execute.New(execute.Options{
		Evictor: a.options.Evictor, Permits: a.options.Permits, Taints: a.options.Taints,
		Listed: func(uid string) bool {
			return slices.ContainsFunc(a.options.Pods.List(), func(one *nodepods.Pod) bool { return one.UID == uid })
		},
		BeforeSend: a.saveBefore, Intent: a.options.Recorder.Intent, Held: a.options.Held, Now: a.options.Clock.Now,
	})
}

// act has a plan carried out. Meanwhile the loop continues to watch the node and decides nothing
// until the report is there.
func (a *Agent) act(ctx context.Context, p decide.Plan) {
	a.decisions.Number(&p.Decision)
	d := p.Decision
	a.acting = &d
	a.victims.Request(d.Time)
	a.memory.Learn()
	a.executor.Start(ctx, p)
}

// takeReport takes what became of a plan, or of a request in doubt: it completes the decision,
// books the victim, remembers the refusals and records the decision.
func (a *Agent) takeReport(r execute.Report) {
	now := a.options.Clock.Now()
	defer a.memory.Answered()
	d := a.acting
	if r.About != nil {
		d = r.About.Decision(now, a.victims.All())
	}
	a.acting = nil
	d.Verb, d.BestEffort, d.Detail, d.Attempts = r.Verb, r.BestEffort, r.Detail, r.Attempts
	d.Notes = append(d.Notes, r.Notes...)
	learnt := a.learnWaits(d, &r)
	a.cooldown.Observe(&learnt, now)
	if victim := a.victims.ObserveReport(d, &r, a.policy.DryRun, now); victim != nil {
		pod, simulated := victim.Entry.Pod, victim.Result.Outcome.Simulated()
		a.incidents.Add(d.Incident, incident.Victim{Pod: pod.Key(), UID: pod.UID, DryRun: simulated})
		a.cooldown.Accept(cooldown.VictimOf(&d.Ranking, pod, simulated), now)
	}
	switch {
	case len(d.Attempts) > 0:
		a.decisions.Record(d)
	case r.Hold != decide.HoldNone:
		a.decisions.Hold(d, r.Hold, r.Detail)
	}
}

// reconcileInDoubt resolves requests in doubt by what the watch reports.
func (a *Agent) reconcileInDoubt(now time.Time) {
	if a.acting != nil {
		return
	}
	for _, open := range a.victims.Settled(now) {
		if !a.victims.Booked(open.UID()) { // by one before in this loop
			a.takeReport(execute.Reconciled(open, "the watch of the pods"))
		}
	}
}
