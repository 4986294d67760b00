package agent

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

// A request may hang in a webhook for up to 30 s. One for soft pressure has no such time once
// a hard threshold is met, or nothing holds a hard pressure any more: it is withdrawn, and is in doubt from then on, as one whose answer
// was lost.

// hangsAfter is how long a request may be under way before it counts as hanging: an answer
// takes milliseconds, and one that is about to come is better than doubt.
const hangsAfter = time.Second

// errWithdrawn is the cause of a context whose request was withdrawn.
var errWithdrawn = errors.New("the request was withdrawn: hard pressure does not wait for it")

// underWay is a request that has no answer yet.
type underWay struct {
	since    time.Time
	withdraw context.CancelCauseFunc
}

// request is the one that a walk has under way; current is nil where there is none. The walk
// writes it and the loop reads it.
type request struct {
	current atomic.Pointer[underWay]
	// last is the UID of the pod that was asked for last; nil before.
	last atomic.Pointer[string]
}

// begin notes that a pod is asked for. It returns the request's context and what to call after
// its answer.
func (r *request) begin(ctx context.Context, uid string) (context.Context, func()) {
	withdrawn, withdraw := context.WithCancelCause(ctx)
	r.last.Store(&uid)
	r.current.Store(&underWay{since: time.Now(), withdraw: withdraw})
	return withdrawn, func() {
		r.current.Store(nil)
		withdraw(nil)
	}
}

// isFor reports whether a pod was asked for last: that it is leaving is the walk's own doing, for
// all that is known before its report.
func (r *request) isFor(uid string) bool {
	last := r.last.Load()
	return last != nil && *last == uid
}

// withdrawIfHanging ends a request that is under way for too long.
func (r *request) withdrawIfHanging(now time.Time) {
	if u := r.current.Load(); u != nil && now.Sub(u.since) >= hangsAfter {
		u.withdraw(errWithdrawn)
	}
}
