package agent

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/evictd/evictd/pkg/evict"
	"github.com/evictd/evictd/pkg/pressure"
)

// report is what became of a plan.
type report struct {
	decision *Decision
	expected map[string]int64 // what the accepted victim's end should free
	unheard  *unheard         // what nobody knows the end of; nil when there is nothing
	hold     Hold             // why nobody was asked for; HoldNone when somebody was
}

// act carries a plan out on a goroutine of its own and hands back a report. The
// loop goes on watching the node meanwhile and decides nothing until the report
// is there.
func (a *Agent) act(ctx context.Context, p plan) {
	a.acting = &p
	a.number(p.decision)
	policy := a.policy
	go func() { a.acted <- a.walk(ctx, p, &policy) }()
}

// walk asks for one candidate after the other until one is accepted or there is a
// reason to stop. When the context ends, no further request is sent.
func (a *Agent) walk(ctx context.Context, p plan, policy *Policy) report {
	d := p.decision
	d.Verb = Refused
	if p.unheard != nil {
		if last := a.lookInto(ctx, d, p.unheard); last.unheard != nil || len(d.Attempts) > 0 {
			return last
		}
	}
	if p.escalation != nil {
		return a.escalate(ctx, &p)
	}
	for i := range p.candidates {
		c := &p.candidates[i]
		if c.kept {
			continue
		}
		if d.Detail = whyStop(ctx, p.brake); d.Detail != "" {
			return report{decision: d}
		}
		attempt := Attempt{Entry: c.entry, GraceSeconds: policy.graceOf(d, c)}
		if step := a.send(ctx, d, &attempt); step != evict.NextCandidate {
			return reportOf(d, &attempt, c, step)
		}
		p.noteRefusal(c, &attempt.Result)
	}
	return a.goPastBudget(ctx, &p, policy)
}

// send writes down whom it asks for, asks, and adds the answer to the decision.
func (a *Agent) send(ctx context.Context, d *Decision, attempt *Attempt) evict.Step {
	a.options.Recorder.Intent(d, attempt)
	attempt.Result = a.ask(ctx, d, attempt)
	d.Attempts = append(d.Attempts, *attempt)
	return attempt.Result.Outcome.Next()
}

// reportOf ends a walk with the answer to its last request.
func reportOf(d *Decision, last *Attempt, c *candidate, step evict.Step) report {
	if step == evict.Done {
		d.Verb = Acted
		return report{decision: d, expected: c.expected}
	}
	return report{decision: d, unheard: unheardOf(d, last, c.expected)}
}

// brake ends a walk between two of its requests; a budget may take its time to
// refuse, and the world goes on meanwhile. The loop pulls it, the walk looks.
type brake struct{ reason atomic.Pointer[string] }

func (b *brake) pull(reason string) { b.reason.CompareAndSwap(nil, &reason) }

// keepWatch pulls the brake of what is being carried out when the node does not
// need it any more, or cannot be read.
func (a *Agent) keepWatch(p *plan, sample *pressure.Sample) {
	if fault := a.incomplete(sample); fault != "" {
		p.brake.pull(fault)
		return
	}
	if !p.decision.Pressure.HoldsIn(sample) {
		p.brake.pull("recovered meanwhile")
	}
}

// whyStop returns why no further request should be sent; "" when one should.
func whyStop(ctx context.Context, b *brake) string {
	const stopped = ": no further request was sent"
	if ctx.Err() != nil {
		return "shutting down" + stopped
	}
	if reason := b.reason.Load(); reason != nil {
		return *reason + stopped
	}
	return ""
}

// ask sends one request. A request that is under way when the context ends gets
// shutdownWait to be answered: an accepted eviction should be on record.
func (a *Agent) ask(ctx context.Context, d *Decision, attempt *Attempt) evict.Result {
	request, cancel := outlasting(ctx)
	defer cancel()
	return a.options.Evictor.Evict(request, requestOf(attempt, d.DryRun))
}

// outlasting returns a context that ends shutdownWait after the given one.
func outlasting(ctx context.Context) (context.Context, context.CancelFunc) {
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(shutdownWait, cancel) })
	return longer, func() { stop(); cancel() }
}

func requestOf(attempt *Attempt, dryRun bool) evict.Request {
	pod := attempt.Entry.Pod
	return evict.Request{
		Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID,
		GraceSeconds: attempt.GraceSeconds,
		Delete:       attempt.Past != nil,
		Shorten:      attempt.Escalates,
		DryRun:       dryRun,
	}
}

// settle takes a report: books the victim, remembers the refusals, records the
// decision.
func (a *Agent) settle(r report) {
	a.acting, a.unheard = nil, r.unheard
	now := time.Now()
	for i := range r.decision.Attempts {
		attempt := &r.decision.Attempts[i]
		if !attempt.Result.NoRight || attempt.Past == nil {
			a.backoff.Note(attempt.Entry.Pod.UID, attempt.Result, now)
		}
		if attempt.Escalates {
			a.noteEscalation(attempt, now)
		}
	}
	if accepted := r.decision.Victim(); accepted != nil && !accepted.Escalates {
		a.book(r.decision, accepted, r.expected, now)
	}
	a.noteBestEffort(r.decision.BestEffort, now)
	switch {
	case len(r.decision.Attempts) > 0:
		a.record(r.decision)
	case r.hold != HoldNone:
		a.holdWith(r.decision, r.hold, r.decision.Detail)
	case r.unheard != nil:
		a.backoff.Note(r.unheard.attempt.Entry.Pod.UID, r.unheard.attempt.Result, now)
		a.holdWith(r.decision, HoldUnheard, r.decision.Detail)
	}
}
