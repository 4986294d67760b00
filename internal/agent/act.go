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
	for i := range p.candidates {
		if d.Detail = whyStop(ctx, p.brake); d.Detail != "" {
			break
		}
		c := &p.candidates[i]
		attempt := Attempt{
			Entry:        c.entry,
			GraceSeconds: policy.grace(d.Pressure.Threshold.Hard, c.entry.Pod.GraceSeconds),
		}
		a.options.Recorder.Intent(d, &attempt)
		attempt.Result = a.ask(ctx, d, &attempt)
		d.Attempts = append(d.Attempts, attempt)
		switch attempt.Result.Outcome.Next() {
		case evict.Done:
			d.Verb = Acted
			return report{decision: d, expected: c.expected}
		case evict.Stop:
			return report{decision: d, unheard: unheardOf(d, &attempt, c.expected)}
		case evict.NextCandidate:
		}
	}
	return report{decision: d}
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
		a.backoff.Note(attempt.Entry.Pod.UID, attempt.Result, now)
	}
	if accepted := r.decision.Victim(); accepted != nil {
		a.book(r.decision, accepted, r.expected, now)
	}
	switch {
	case len(r.decision.Attempts) > 0:
		a.record(r.decision)
	case r.unheard != nil:
		a.backoff.Note(r.unheard.attempt.Entry.Pod.UID, r.unheard.attempt.Result, now)
		a.holdWith(r.decision, HoldUnheard, r.decision.Detail)
	}
}
