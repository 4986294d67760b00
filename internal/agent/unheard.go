package agent

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/inflight"
	"github.com/evictd/evictd/internal/nodepods"
	"github.com/evictd/evictd/pkg/evict"
	"github.com/evictd/evictd/pkg/pressure"
)

// lookTimeout bounds the read of a pod whose request's answer nobody heard.
const lookTimeout = 5 * time.Second

// unheard is a request whose answer nobody heard: its pod may be on its way out. Reading
// the pod settles it, or the watch does, whichever tells first. That the pod stays settles
// nothing while the API server may still be at it, which it is for evict.RequestTimeout at
// most: until then nobody else is asked for because of the same shortage.
type unheard struct {
	attempt  decide.Attempt
	expected pressure.Amounts
	asked    *decide.Decision // that sent it
	// first is when the pod was asked for the first time of a row that nobody heard of.
	first time.Time
	// rests is until when its pod is not read again; the zero time before it was.
	rests time.Time
}

// unheardOf keeps a request that may have been carried out; a dry run's cannot.
func unheardOf(d *decide.Decision, attempt *decide.Attempt, expected pressure.Amounts) *unheard {
	if attempt.Result.Outcome != evict.Unconfirmed || d.DryRun {
		return nil
	}
	return &unheard{attempt: *attempt, expected: expected, asked: d, first: attempt.Result.Sent}
}

// mayComeLate reports whether a request may still be carried out. Where the pod was asked for
// again, and that was not heard either, the last request counts: it is the last to come.
func (u *unheard) mayComeLate(now time.Time) bool {
	return u.attempt.Result.Late && now.Sub(u.attempt.Result.Sent) < evict.RequestTimeout
}

// mayBeOurs reports whether the pod's end that is seen now may be the request's doing: the
// API server gives a request up after a while, and reading the pod takes its time.
func (u *unheard) mayBeOurs(now time.Time) bool {
	return now.Sub(u.attempt.Result.Sent) <= evict.RequestTimeout+lookTimeout
}

// asksAgain reports whether the pod may be asked for again before the others: for a bounded
// time, so that they have their turn.
func (u *unheard) asksAgain(now time.Time) bool { return now.Sub(u.first) < evict.RequestTimeout }

func (u *unheard) uid() string { return u.attempt.Entry.Pod.UID }

// stillUnheard returns the request of a decision's resource nobody knows the end of, and those
// of others whose pods may be leaving because of it. Once a pod was seen on its way out, that
// is known.
func (a *Agent) stillUnheard(d *decide.Decision) (own *unheard, others []*unheard) {
	a.dropBooked()
	for _, u := range a.doubts.all() {
		switch {
		case u.asked.Resource() == d.Resource():
			own = u
		case u.mayBeOurs(d.Time):
			others = append(others, u)
		}
	}
	return own, others
}

// dropBooked forgets the requests whose pods are in flight: what becomes of those is known.
func (a *Agent) dropBooked() {
	a.doubts.drop(func(u *unheard) bool { return a.ledger.Booked(u.uid()) })
}

// unheardAfter returns the request of the report's resource nobody knows the end of after a
// plan was carried out. One that may come late is remembered while nobody was asked for since.
func (a *Agent) unheardAfter(r *report, now time.Time) *unheard {
	before := a.doubts.of(r.decision.Resource())
	asked := slices.ContainsFunc(r.decision.Attempts, func(t decide.Attempt) bool { return !t.Escalates })
	switch {
	case before == nil:
		return r.unheard
	case r.unheard == nil && !asked && before.mayComeLate(now):
		return before
	case r.unheard != nil && r.unheard.uid() == before.uid():
		r.unheard.first = before.first
	}
	return r.unheard
}

// doubtRests is how long a pod is not read again that was there and may still be evicted by a
// request in doubt.
const doubtRests = time.Second

// restDoubt lets a doubt rest that a look at its pod did not settle. Where the API server
// could not tell, no other request would be answered either.
func (a *Agent) restDoubt(r *report, now time.Time) {
	if r.unread {
		a.backoff.NoteUnread(now)
		return
	}
	r.unheard.rests = now.Add(doubtRests)
}

// hear settles the requests nobody heard the end of when the watch tells that their pods are
// on their way out, or lists them no more. After the API server has given a request up that is
// another's doing, days later perhaps.
func (a *Agent) hear(now time.Time) {
	if a.acting != nil || !a.options.Pods.Synced() {
		return
	}
	for _, open := range a.doubts.all() {
		switch {
		case a.stays(open.uid()):
		case !open.mayBeOurs(now), a.ledger.Booked(open.uid()): // the latter by one before in this loop
			a.doubts.drop(func(u *unheard) bool { return u == open })
		default:
			d := open.decision(now, a.ledger.OnTheirWay())
			open.settle(d, "the watch of the pods")
			a.takeReport(report{decision: d, expected: open.expected})
		}
	}
}

// decision returns the record of what became of a request after its own decision.
func (u *unheard) decision(now time.Time, onTheirWay []inflight.Booking) *decide.Decision {
	return &decide.Decision{Time: now, Incident: u.asked.Incident, Pressure: u.asked.Pressure, Ranking: u.asked.Ranking, OnTheirWay: onTheirWay}
}

// stays reports whether the API server lists a pod that is not being deleted.
func (a *Agent) stays(uid string) bool {
	return slices.ContainsFunc(a.options.Pods.List(), func(pod *nodepods.Pod) bool {
		return pod.UID == uid && !pod.Terminating
	})
}

// lookInto reads the pod of a request nobody heard the end of, before anybody else
// is asked for. When the pod has left or is leaving, that is the decision's only
// attempt, with the outcome that is known now.
func (a *Agent) lookInto(ctx context.Context, p *plan) report {
	bounded, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	d, open := p.decision, p.unheard
	fate, err := a.options.Evictor.Look(bounded, requestOf(&open.attempt, false))
	switch {
	case err != nil:
		d.Detail = fmt.Sprintf("whether %s is on its way out is still not known: %v", open.attempt.Entry.Pod.Key(), err)
		return report{decision: d, unheard: open, unread: true}
	case fate != evict.Stays:
		return open.left(d, time.Now())
	case open.mayComeLate(time.Now()) && p.escalation == nil && (!open.asksAgain(time.Now()) || !p.asksFirst(open.uid())):
		d.Detail = open.undecided()
		return report{decision: d, unheard: open}
	default:
		return report{decision: d}
	}
}

// undecided says why a request in doubt is waited for.
func (u *unheard) undecided() string {
	return u.attempt.Entry.Pod.Key() + " is not on its way out, and may not be asked for again; the last request for it may still be carried out"
}

// lookAside reads the pod of a request about another resource nobody heard the end of. One that
// is leaving may give back of this resource too: that is on record then, and the next decision
// knows. Else it holds nothing up. It goes after all others while it may be leaving: who goes in
// its place is asked for at once, and where there is nobody else it is better than the kernel's
// choice.
func (a *Agent) lookAside(ctx context.Context, p *plan, other *unheard) (last report, left bool) {
	bounded, cancel := context.WithTimeout(ctx, hangsAfter)
	defer cancel()
	fate, err := a.options.Evictor.Look(bounded, requestOf(&other.attempt, false))
	now := time.Now()
	if err == nil && fate != evict.Stays {
		return other.left(other.decision(now, p.decision.OnTheirWay), now), true
	}
	if (err != nil || other.mayComeLate(now)) && p.asksLast(other.uid()) {
		p.decision.Notes = append(p.decision.Notes, fmt.Sprintf("%s is asked for last: a request for it, about %v, was not answered and may still be carried out",
			other.attempt.Entry.Pod.Key(), other.asked.Pressure.Threshold.Signal))
	}
	return report{}, false
}

// left returns the report that a read found the pod on its way out, or gone.
func (u *unheard) left(d *decide.Decision, now time.Time) report {
	if !u.mayBeOurs(now) {
		d.Detail = u.attempt.Entry.Pod.Key() + " is on its way out, or has ended, by another's doing"
		return report{decision: d, expected: u.expected, hold: decide.HoldOnItsWay, foreign: &u.attempt}
	}
	u.settle(d, "reading the pod again")
	return report{decision: d, expected: u.expected}
}

// settle adds to a decision that the request was carried out: its pod is leaving, or has
// ended. It has no times: nothing was sent.
func (u *unheard) settle(d *decide.Decision, how string) {
	attempt := u.attempt
	attempt.Result = evict.Result{
		Outcome: accepted(&attempt),
		Message: "the answer to the request was not heard; " + how + " settled it",
	}
	d.Verb = decide.Acted
	if attempt.Past != nil {
		d.BestEffort = decide.BestEffortDeleted
	}
	d.Attempts = append(d.Attempts, attempt)
}

// ended turns Gone into the end of an earlier request for the same pod that nobody heard the
// answer to, while that may have been carried out.
func (p *plan) ended(attempt *decide.Attempt) {
	result := &attempt.Result
	earlier := p.earlier(attempt.Entry.Pod.UID)
	if earlier == nil || result.Outcome != evict.Gone || !earlier.mayBeOurs(result.Sent) {
		return
	}
	result.Outcome = accepted(&earlier.attempt)
	result.Message += "; an earlier request for it was not answered, and has ended it"
}

// earlier returns a request for a pod that nobody heard the end of; nil where there is none.
func (p *plan) earlier(uid string) *unheard {
	if p.unheard != nil && p.unheard.uid() == uid {
		return p.unheard
	}
	if at := slices.IndexFunc(p.others, func(u *unheard) bool { return u.uid() == uid }); at >= 0 {
		return p.others[at]
	}
	return nil
}

// accepted returns the outcome of a request that was carried out.
func accepted(attempt *decide.Attempt) evict.Outcome {
	if attempt.Past != nil {
		return evict.Deleted
	}
	return evict.Evicted
}

// asksFirst moves a pod to the front of those that are asked for, and reports whether it is
// one of them.
func (p *plan) asksFirst(uid string) bool {
	at := slices.IndexFunc(p.candidates, func(c candidate) bool { return c.entry.Pod.UID == uid && !c.kept })
	if at < 0 {
		return false
	}
	first := p.candidates[at]
	copy(p.candidates[1:at+1], p.candidates[:at])
	p.candidates[0] = first
	return true
}

// asksLast moves a pod to the end of those that are asked for, and reports whether it is one of
// them.
func (p *plan) asksLast(uid string) bool {
	at := slices.IndexFunc(p.candidates, func(c candidate) bool { return c.entry.Pod.UID == uid && !c.kept })
	if at < 0 {
		return false
	}
	last := p.candidates[at]
	p.candidates = append(slices.Delete(p.candidates, at, at+1), last)
	return true
}
