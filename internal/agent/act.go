package agent

import (
	"context"
	"time"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/pkg/evict"
)

// act carries a plan out on a goroutine of its own and hands back a report. The
// loop goes on watching the node meanwhile and decides nothing until the report
// is there.
func (a *Agent) act(ctx context.Context, p plan) {
	a.acting = &p
	a.number(p.decision)
	a.unshown.decide(p.decision.Time, a.doubts.mayEnd(p.decision.Time), a.readLists)
	a.learn()
	policy := a.policy
	go func() { a.acted <- a.walk(ctx, p, &policy) }()
}

// walk asks for one candidate after the other until one is accepted or there is a
// reason to stop. When the context ends, no further request is sent.
func (a *Agent) walk(ctx context.Context, p plan, policy *Policy) report {
	d := p.decision
	d.Verb = decide.Refused
	for _, other := range p.others {
		if last, left := a.lookAside(ctx, &p, other); left {
			return last
		}
	}
	if p.unheard != nil {
		if last := a.lookInto(ctx, &p); last.unheard != nil || last.hold != decide.HoldNone || len(d.Attempts) > 0 {
			return last
		}
	}
	if p.escalation != nil {
		return a.escalate(ctx, &p)
	}
	a.taintFirst(ctx, d, policy)
	p.slots = a.newSlotWalk(d, policy)
	last := a.askInTurn(ctx, &p, policy)
	last.slots = p.slots
	return last
}

// askInTurn asks for one candidate after the other, and for one past its budget when all
// were refused and the configuration says so.
func (a *Agent) askInTurn(ctx context.Context, p *plan, policy *Policy) report {
	for i := range p.candidates {
		c := &p.candidates[i]
		if c.kept {
			continue
		}
		if last, over := a.askFor(ctx, p, policy, c); over {
			return last
		}
	}
	return a.goPastBudget(ctx, p, policy)
}

// askFor asks for one candidate. It reports whether that ends the walk.
func (a *Agent) askFor(ctx context.Context, p *plan, policy *Policy, c *candidate) (last report, over bool) {
	if last, over = endsEarly(ctx, p); over {
		return last, true
	}
	if a.isReplaced(p, c) {
		return report{decision: p.decision, hold: decide.HoldSettling}, true
	}
	d, attempt := p.decision, decide.Attempt{Entry: c.entry, GraceSeconds: policy.grace(p.decision, c.entry.Pod)}
	if !p.slots.take(ctx, p.interrupt, &attempt) {
		return report{}, false
	}
	a.saveBefore(d, &attempt, c.expected)
	step := a.send(ctx, p, &attempt)
	p.slots.answered(&attempt)
	if step != evict.NextCandidate {
		return reportOf(d, &attempt, c, step), true
	}
	p.noteRefusal(c, &attempt.Result)
	p.spareAlike(c, &attempt.Result)
	return report{}, false
}

// send writes down whom it asks for, asks, and adds the answer to the decision.
func (a *Agent) send(ctx context.Context, p *plan, attempt *decide.Attempt) evict.Step {
	d := p.decision
	a.options.Recorder.Intent(d, attempt)
	attempt.Result = a.ask(ctx, p, attempt)
	p.ended(attempt)
	d.Attempts = append(d.Attempts, *attempt)
	return attempt.Result.Outcome.Next()
}

// reportOf ends a walk with the answer to its last request.
func reportOf(d *decide.Decision, last *decide.Attempt, c *candidate, step evict.Step) report {
	if step == evict.Done {
		d.Verb = decide.Acted
		return report{decision: d, expected: c.expected}
	}
	return report{decision: d, expected: c.expected, unheard: unheardOf(d, last, c.expected)}
}

// ask sends one request. A request that is under way when the context ends gets
// shutdownWait to be answered: an accepted eviction should be on record.
func (a *Agent) ask(ctx context.Context, p *plan, attempt *decide.Attempt) evict.Result {
	request, cancel := outlasting(ctx)
	defer cancel()
	request, answered := p.interrupt.request.begin(request, attempt.Entry.Pod.UID)
	defer answered()
	return a.options.Evictor.Evict(request, requestOf(attempt, p.decision.DryRun))
}

// outlasting returns a context that ends shutdownWait after the given one.
func outlasting(ctx context.Context) (context.Context, context.CancelFunc) {
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(shutdownWait, cancel) })
	return longer, func() { stop(); cancel() }
}

func requestOf(attempt *decide.Attempt, dryRun bool) evict.Request {
	pod := attempt.Entry.Pod
	return evict.Request{
		Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID,
		GraceSeconds: attempt.GraceSeconds,
		Delete:       attempt.Past != nil,
		Shorten:      attempt.Escalates,
		DryRun:       dryRun,
	}
}
