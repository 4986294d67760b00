package agent

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/evictd/evictd/pkg/evict"
)

// lookTimeout bounds the read of a pod whose request's answer nobody heard.
const lookTimeout = 5 * time.Second

// unheard is a request whose answer nobody heard: its pod may be on its way out. Reading
// the pod settles it, or the watch does, whichever tells first. That the pod stays settles
// nothing while the API server may still be at it, which it is for evict.RequestTimeout at
// most: until then nobody else is asked for.
type unheard struct {
	attempt  Attempt
	expected map[string]int64
	asked    *Decision // that sent it
	// first is when the pod was asked for the first time of a row that nobody heard of.
	first time.Time
}

// unheardOf keeps a request that may have been carried out; a dry run's cannot.
func unheardOf(d *Decision, attempt *Attempt, expected map[string]int64) *unheard {
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

func (a *Agent) isUnheard(uid string) bool { return a.unheard != nil && a.unheard.uid() == uid }

// stillUnheard returns the request nobody knows the end of. Once its pod was seen on its
// way out, it is known.
func (a *Agent) stillUnheard() *unheard {
	if a.unheard != nil && a.ledger.Booked(a.unheard.uid()) {
		a.unheard = nil
	}
	return a.unheard
}

// unheardAfter returns the request nobody knows the end of after a plan was carried out.
// One that may come late is remembered while nobody was asked for since.
func (a *Agent) unheardAfter(r *report, now time.Time) *unheard {
	before := a.unheard
	asked := slices.ContainsFunc(r.decision.Attempts, func(t Attempt) bool { return !t.Escalates })
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

// hear settles the request nobody heard the end of when the watch tells that its pod is on
// its way out, or lists it no more. After the API server has given the request up that is
// another's doing, days later perhaps.
func (a *Agent) hear(now time.Time) {
	open := a.unheard
	if open == nil || a.acting != nil || !a.options.Pods.Synced() {
		return
	}
	if a.stays(open.uid()) {
		return
	}
	if !open.mayBeOurs(now) {
		a.unheard = nil
		return
	}
	d := &Decision{Time: now, Incident: open.asked.Incident, Pressure: open.asked.Pressure, Ranking: open.asked.Ranking, OnTheirWay: a.ledger.OnTheirWay()}
	open.settle(d, "the watch of the pods")
	a.takeReport(report{decision: d, expected: open.expected})
}

// stays reports whether the API server lists a pod that is not being deleted.
func (a *Agent) stays(uid string) bool {
	return slices.ContainsFunc(a.options.Pods.List(), func(pod *corev1.Pod) bool {
		return string(pod.UID) == uid && pod.DeletionTimestamp == nil
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
		return report{decision: d, unheard: open}
	case fate != evict.Stays && !open.mayBeOurs(time.Now()):
		d.Detail = open.attempt.Entry.Pod.Key() + " is on its way out, or has ended, by another's doing"
		return report{decision: d, expected: open.expected, hold: HoldOnItsWay, foreign: &open.attempt}
	case fate != evict.Stays:
		open.settle(d, "reading the pod again")
		return report{decision: d, expected: open.expected}
	case open.mayComeLate(time.Now()) && p.escalation == nil && (!open.asksAgain(time.Now()) || !p.asksFirst(open.uid())):
		d.Detail = fmt.Sprintf("%s is not on its way out, and may not be asked for again; the last request for it may still be carried out",
			open.attempt.Entry.Pod.Key())
		return report{decision: d, unheard: open}
	default:
		return report{decision: d}
	}
}

// settle adds to a decision that the request was carried out: its pod is leaving, or has
// ended. It has no times: nothing was sent.
func (u *unheard) settle(d *Decision, how string) {
	attempt := u.attempt
	attempt.Result = evict.Result{
		Outcome: accepted(&attempt),
		Message: "the answer to the request was not heard; " + how + " settled it",
	}
	d.Verb = Acted
	if attempt.Past != nil {
		d.BestEffort = BestEffortDeleted
	}
	d.Attempts = append(d.Attempts, attempt)
}

// ended turns Gone into the end of an earlier request for the same pod that nobody heard the
// answer to, while that may have been carried out.
func (p *plan) ended(attempt *Attempt) {
	earlier, result := p.unheard, &attempt.Result
	if earlier == nil || result.Outcome != evict.Gone || earlier.uid() != attempt.Entry.Pod.UID || !earlier.mayBeOurs(result.Sent) {
		return
	}
	result.Outcome = accepted(&earlier.attempt)
	result.Message += "; an earlier request for it was not answered, and has ended it"
}

// accepted returns the outcome of a request that was carried out.
func accepted(attempt *Attempt) evict.Outcome {
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
