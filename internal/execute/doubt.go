package execute

import (
	"context"
	"fmt"
	"time"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/pkg/evict"
)

// lookInto reads the pod of a request in doubt before any request is sent (docs/adr/0011). It
// reports whether that ends the run: the pod has ended or is terminating, or the request may still
// be carried out.
func (r *run) lookInto(ctx context.Context, open *decide.InDoubt) (over bool) {
	fate, err := r.look(ctx, open, decide.LookTimeout)
	now := r.options.Now()
	switch {
	case err != nil:
		r.report.InDoubt, r.report.Unread = open, true
		r.hold(decide.HoldRequestInDoubt, fmt.Sprintf("whether %s is terminating is still not known: %v", open.Attempt.Entry.Pod.Key(), err))
	case fate != evict.Stays:
		r.left(open, now)
	case open.MayStillApply(now) && r.plan.Escalation == nil && (!open.MayRetry(now) || !r.moveFirst(open.UID())):
		r.report.InDoubt = open
		r.hold(decide.HoldRequestInDoubt, open.Undecided())
	default:
		return false
	}
	return true
}

// lookAside reads the pod of a request in doubt about another resource. A pod that is terminating
// may free this resource too: that is recorded then, and the next decision knows it. Otherwise the
// request delays nothing. The pod is evicted after all others while it may be terminating: the
// request for another pod is sent at once, and if there is no other it is better than the kernel's
// choice.
func (r *run) lookAside(ctx context.Context, other *decide.InDoubt) (left bool) {
	fate, err := r.look(ctx, other, hangsAfter)
	now := r.options.Now()
	if err == nil && fate != evict.Stays {
		r.report.About, r.report.Notes = other, nil
		r.left(other, now)
		return true
	}
	if (err != nil || other.MayStillApply(now)) && r.moveLast(other.UID()) {
		r.note(fmt.Sprintf("%s is tried last: a request for it, about %v, got no response and may still be carried out",
			other.Attempt.Entry.Pod.Key(), other.Pressure.Threshold.Signal))
	}
	return false
}

func (r *run) look(ctx context.Context, open *decide.InDoubt, within time.Duration) (evict.Fate, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	return r.options.Evictor.Look(ctx, requestOf(&open.Attempt, false))
}

// left reports that a read found the pod of a request in doubt terminating, or deleted.
func (r *run) left(open *decide.InDoubt, now time.Time) {
	if open.MayBeOurs(now) {
		r.report.Reconcile(open, "reading the pod again")
		return
	}
	r.report.Expected, r.report.Foreign = open.Expected, &open.Attempt
	r.hold(decide.HoldReclaimInProgress, open.Attempt.Entry.Pod.Key()+" is terminating or has ended, but not by this request")
}

// claim turns Gone into the end of an earlier request in doubt for the same pod, while that may
// have been carried out.
func (r *run) claim(attempt *decide.Attempt) {
	result := &attempt.Result
	earlier := r.earlier(attempt.Entry.Pod.UID)
	if earlier == nil || result.Outcome != evict.Gone || !earlier.MayBeOurs(result.Sent) {
		return
	}
	result.Outcome = earlier.Attempt.CarriedOut()
	result.Message += "; an earlier request for it was not answered, and has ended it"
}

// earlier returns a request in doubt for a pod; nil where there is none.
func (r *run) earlier(uid string) *decide.InDoubt {
	if open := r.plan.InDoubt; open != nil && open.UID() == uid {
		return open
	}
	for i := range r.plan.Others {
		if open := &r.plan.Others[i]; open.UID() == uid {
			return open
		}
	}
	return nil
}
