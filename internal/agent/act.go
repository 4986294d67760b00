package agent

import (
	"context"
	"time"

	"github.com/evictd/evictd/pkg/evict"
)

// deadlineMargin is how long after its grace period a victim may still take to
// disappear before it counts as stuck: the kubelet's own clean-up.
const deadlineMargin = 15 * time.Second

// report is what became of a plan.
type report struct {
	decision *Decision
	victim   *candidate // nil when nobody was accepted
}

// act carries a plan out on a goroutine of its own and hands back a report. The
// loop goes on watching the node meanwhile and decides nothing until the report
// is there.
func (a *Agent) act(ctx context.Context, p plan) {
	p.needed.Store(true)
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
	for i := range p.candidates {
		if d.Detail = whyStop(ctx, &p); d.Detail != "" {
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
			return report{decision: d, victim: c}
		case evict.Stop:
			return report{decision: d}
		case evict.NextCandidate:
		}
	}
	return report{decision: d}
}

// whyStop returns why no further request should be sent; "" when one should.
func whyStop(ctx context.Context, p *plan) string {
	switch {
	case ctx.Err() != nil:
		return "shutting down: no further request was sent"
	case !p.needed.Load():
		return "recovered meanwhile: no further request was sent"
	default:
		return ""
	}
}

// ask sends one request. A request that is under way when the context ends gets
// shutdownWait to be answered: an accepted eviction should be on record.
func (a *Agent) ask(ctx context.Context, d *Decision, attempt *Attempt) evict.Result {
	request, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(shutdownWait, cancel) })
	defer stop()
	pod := attempt.Entry.Pod
	return a.options.Evictor.Evict(request, evict.Request{
		Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID,
		GraceSeconds: attempt.GraceSeconds,
		DryRun:       d.DryRun,
	})
}

// settle takes a report: books the victim, remembers the refusals, records the
// decision.
func (a *Agent) settle(r report) {
	a.acting = nil
	now := time.Now()
	for i := range r.decision.Attempts {
		attempt := &r.decision.Attempts[i]
		a.backoff.Note(attempt.Entry.Pod.UID, attempt.Result, now)
	}
	simulated := r.decision.DryRun && !a.policy.DryRun // the dry run ended meanwhile
	if accepted := r.decision.Victim(); accepted != nil && !simulated {
		a.book(r.decision, accepted, r.victim, now)
	}
	if len(r.decision.Attempts) > 0 {
		a.record(r.decision)
	}
}

// book notes an accepted eviction, and nothing else: a refusal frees nothing.
func (a *Agent) book(d *Decision, accepted *Attempt, victim *candidate, now time.Time) {
	pod := accepted.Entry.Pod
	grace := pod.GraceSeconds
	if accepted.GraceSeconds != nil {
		grace = *accepted.GraceSeconds
	}
	a.limiter.Count(pod.OwnerUID, now)
	a.ledger.Book(evict.Booking{
		Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID,
		Expected: victim.expected,
		Signal:   d.Pressure.Threshold.Signal.String(),
		Accepted: now,
		Deadline: now.Add(time.Duration(grace)*time.Second + deadlineMargin),
		DryRun:   d.DryRun,
	})
}

// letGo ends the bookings of victims that have gone: the API server does not list
// the pod any more and its cgroup is not there either. A force-deleted pod that
// still runs still holds what it holds.
func (a *Agent) letGo(now time.Time) {
	if !a.options.Pods.Synced() {
		return
	}
	var listed map[string]bool
	present := func(uid string) bool {
		if listed == nil {
			listed = a.listed()
		}
		if listed[uid] {
			return true
		}
		there, err := a.options.Cgroups.Present(uid)
		if err != nil {
			a.options.Recorder.ReadError(SourceUsage, err)
			return true // unknown is not gone
		}
		return there
	}
	a.ledger.Settle(now, present)
	a.backoff.Forget(present)
	a.options.Recorder.Ledger(now, a.ledger.OnTheirWay())
}

func (a *Agent) listed() map[string]bool {
	pods := a.options.Pods.List()
	uids := make(map[string]bool, len(pods))
	for _, pod := range pods {
		uids[string(pod.UID)] = true
	}
	return uids
}
