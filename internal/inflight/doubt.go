package inflight

import (
	"time"

	"github.com/evictd/evictd/internal/decide"
)

// A request whose outcome is not known holds the decisions about its resource, so that no other pod is
// evicted for the same shortage. It holds no others: a soft request for a disk may be in doubt for half
// a minute, and memory cannot wait that long.

// restsFor is how long a pod is not read again that was there and may still be evicted by a
// request in doubt.
const restsFor = time.Second

// Doubts returns the request in doubt about a resource, nil where there is none, and those about other
// resources whose pods may be terminating because of them.
func (t *Tracker) Doubts(about decide.Resource, now time.Time) (own *decide.InDoubt, others []decide.InDoubt) {
	for _, v := range t.victims {
		switch {
		case v.Phase != decide.Requested:
		case v.Request.Resource() == about:
			own = v.Request
		case v.Request.MayBeOurs(now):
			others = append(others, *v.Request)
		}
	}
	return own, others
}

// Reconcile takes what the watch tells of the requests in doubt, and returns those whose pods are
// terminating, or no longer listed, because of them. They stay in doubt until their outcome is
// reported. After the API server has given a request up, its pod's end has another cause, possibly
// days later.
func (t *Tracker) Reconcile(now time.Time) []*decide.InDoubt {
	if len(t.victims) == 0 || !t.options.Pods.Synced() {
		return nil
	}
	var ended []*decide.InDoubt
	t.drop(func(v *decide.Victim) bool {
		if v.Phase != decide.Requested || t.stays(v.UID) {
			return false
		}
		over := !v.Request.MayBeOurs(now)
		if !over {
			ended = append(ended, v.Request)
		}
		return over
	})
	return ended
}

// learnDoubt takes what a plan found out about what is in doubt. A request that may still be carried
// out stays in doubt, also where a second one for its pod was refused: the API server charges a budget
// for the first one before it deletes the pod. A request for the same pod continues the row of
// attempts.
func (t *Tracker) learnDoubt(d *decide.Decision, r *decide.Report, now time.Time) {
	before, _ := t.Doubts(d.Resource(), now)
	if before != nil && (r.InDoubt != nil || !before.MayStillApply(now)) {
		t.drop(func(v *decide.Victim) bool { return v.Request == before })
	}
	if r.InDoubt == nil {
		return
	}
	request := *r.InDoubt
	if before != nil && before.UID() == request.UID() {
		request.First = before.First
	}
	if len(d.Attempts) == 0 && !r.Unread { // it was read, and no request was sent
		request.Rests = now.Add(restsFor)
	}
	t.victims = append(t.victims, request.Victim())
}

// settle ends the doubt about pods that are known to terminate, for each resource.
func (t *Tracker) settle() {
	for _, known := range t.All() {
		t.drop(func(v *decide.Victim) bool { return v.Phase == decide.Requested && v.UID == known.UID })
	}
}
