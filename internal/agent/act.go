package agent

import (
	"context"
	"slices"
	"time"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/execute"
	"github.com/evictd/evictd/internal/indoubt"
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

// act has a plan carried out. The loop goes on watching the node meanwhile and decides nothing
// until the report is there.
func (a *Agent) act(ctx context.Context, p decide.Plan) {
	a.decisions.Number(&p.Decision)
	d := p.Decision
	a.acting = &d
	a.victims.Request(d.Time, a.inDoubt.MayEnd(d.Time), a.readLists)
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
	a.inDoubt.Observe(&indoubt.Report{
		Decision: d, InDoubt: r.InDoubt, Stays: len(d.Attempts) == 0 && r.Hold != decide.HoldNone && !r.Unread,
	}, now)
	learnt := a.learnWaits(d, &r)
	a.cooldown.Observe(&learnt, now)
	a.noteEscalations(d, now)
	a.bookReport(d, &r, now)
	a.inDoubt.Forget(a.victims.Booked) // its pod may be in doubt for another resource, too
	if !a.inDoubt.MayEnd(now) {
		a.victims.Answered()
	}
	switch {
	case len(d.Attempts) > 0:
		a.decisions.Record(d)
	case r.Hold != decide.HoldNone:
		a.decisions.Hold(d, r.Hold, r.Detail)
	}
}

// noteEscalations takes the answers about victims that were to end sooner. They count against no
// limit: no other pod is evicted.
func (a *Agent) noteEscalations(d *decide.Decision, now time.Time) {
	for i := range d.Attempts {
		if attempt := &d.Attempts[i]; attempt.Escalates {
			grace := attempt.Grace()
			a.victims.Escalate(attempt.Entry.Pod.UID, attempt.Result.Outcome, grace, deadlineOf(grace, now), now)
		}
	}
}

// bookReport books who is in flight by what became of a plan.
func (a *Agent) bookReport(d *decide.Decision, r *execute.Report, now time.Time) {
	if accepted := d.Victim(); accepted != nil && !accepted.Escalates {
		a.book(d, accepted, r, now)
	}
	if gone := d.Gone(); gone != nil {
		a.bookGone(gone, r.Expected, now)
	}
	if r.Foreign != nil {
		a.bookForeign(r.Foreign, r.Expected, now)
	}
}
