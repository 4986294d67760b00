package execute

import (
	"context"
	"fmt"
	"time"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/pkg/evict"
)

// settleDoubts reads the pods of requests in doubt before any request is sent (docs/adr/0011), first those
// of requests about other resources: a pod that is terminating may free this resource too, which is
// recorded then, and the next decision knows it. It reports whether that ends the run.
func (r *run) settleDoubts(ctx context.Context) (over bool) {
	for i := range r.plan.Others {
		if r.lookInto(ctx, &r.plan.Others[i], hangsAfter) {
			return true
		}
	}
	return r.plan.InDoubt != nil && r.lookInto(ctx, r.plan.InDoubt, evict.LookTimeout)
}

// lookInto reads the pod of a request in doubt. It reports whether that ends the run: the pod has ended or
// is terminating, or, of the plan's own resource, that is still not known, or the request may still be
// carried out, and the pod may not be tried again before the others. A request about another resource
// delays nothing: its pod is evicted after all others while it may be terminating, and if there is no
// other it is better than the kernel's choice.
func (r *run) lookInto(ctx context.Context, open *decide.InDoubt, within time.Duration) (over bool) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	seen, err := r.options.Evictor.Look(ctx, open.Attempt.Request(false))
	now := r.options.Now()
	switch mayCome := open.MayStillApply(now); {
	case err == nil && seen != evict.Unconfirmed:
		r.report.Left, r.report.Expected, r.report.Hold = open, open.Expected, decide.HoldReclaimInProgress
		r.report.Detail = open.Attempt.Entry.Pod.Key() + " is terminating or has ended, but not by this request"
	case open != r.plan.InDoubt:
		if err != nil || mayCome {
			r.tryLast(open)
		}
		return false
	case err != nil:
		r.report.InDoubt, r.report.Unread, r.report.Hold = open, true, decide.HoldRequestInDoubt
		r.report.Detail = fmt.Sprintf("whether %s is terminating is still not known: %v", open.Attempt.Entry.Pod.Key(), err)
	case mayCome && !r.plan.Escalates() && (!open.MayRetry(now) || !r.move(open.UID(), true)):
		r.report.InDoubt, r.report.Hold, r.report.Detail = open, decide.HoldRequestInDoubt, open.Undecided()
	default:
		return false
	}
	return true
}

// tryLast moves the pod of a request in doubt behind the other candidates.
func (r *run) tryLast(open *decide.InDoubt) {
	if r.move(open.UID(), false) {
		r.note(fmt.Sprintf("%s is tried last: a request for it, about %v, got no response and may still be carried out",
			open.Attempt.Entry.Pod.Key(), open.Pressure.Threshold.Signal))
	}
}
