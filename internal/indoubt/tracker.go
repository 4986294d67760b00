package indoubt

import (
	"slices"
	"time"

	"github.com/evictd/evictd/internal/decide"
)

// restsFor is how long a pod is not read again that was there and may still be evicted by a
// request in doubt.
const restsFor = time.Second

// Tracker has the requests in doubt by the resource that was short when they were sent, at most one
// for each. Such a request holds the decisions about that resource, so that no other pod is evicted
// for the same shortage. It holds no others: a soft request for a disk may be in doubt for half a
// minute, and memory cannot wait that long. The zero value has none. It is not safe for concurrent
// use.
type Tracker struct {
	open []*request // the oldest first
}

// request is a request in doubt, and until when its pod is not read again; the zero time before it
// was.
type request struct {
	decide.InDoubt

	rests time.Time
}

// For returns what a decision needs: the request in doubt about its resource, nil where there is
// none, and those about other resources whose pods may be terminating because of them. Once a pod
// is in flight, its request is in doubt no more.
func (t *Tracker) For(about decide.Resource, now time.Time, inFlight func(uid string) bool) (own *decide.InDoubt, others []decide.InDoubt) {
	for _, r := range t.open {
		open := r.InDoubt
		switch {
		case inFlight(r.UID()):
		case open.Asked.Resource() == about:
			own = &open
		case open.MayBeOurs(now):
			others = append(others, open)
		}
	}
	return own, others
}

// Of returns the request in doubt about a resource, nil where there is none, and until when its
// pod is not read again because it was read just now; the zero time where it was not.
func (t *Tracker) Of(about decide.Resource) (open *decide.InDoubt, rests time.Time) {
	r := t.of(about)
	if r == nil {
		return nil, time.Time{}
	}
	of := r.InDoubt
	return &of, r.rests
}

// About reports whether a pod's request is in doubt.
func (t *Tracker) About(uid string) bool {
	return slices.ContainsFunc(t.open, func(r *request) bool { return r.UID() == uid })
}

// Report is what became of a plan, as far as it concerns what is in doubt.
type Report struct {
	// Decision is the plan's, with its attempts.
	Decision *decide.Decision
	// InDoubt is the request that is in doubt after it; nil where none is.
	InDoubt *decide.InDoubt
	// Stays says that its pod was read and still runs, and that no request was sent. When the API
	// server could not tell, no other request would get a response either, and the cooldown holds
	// them.
	Stays bool
}

// Observe processes the outcome of a plan. A request in doubt that may still be carried out stays
// in doubt, also where a second one for its pod was refused: the API server charges a budget for the
// first one before it deletes the pod. A request for the same pod continues the row of attempts.
func (t *Tracker) Observe(done *Report, now time.Time) {
	about := done.Decision.Resource()
	before := t.of(about)
	if done.InDoubt == nil {
		if before != nil && !before.MayStillApply(now) {
			t.put(about, nil)
		}
		return
	}
	r := &request{InDoubt: *done.InDoubt}
	if before != nil && before.UID() == r.UID() {
		r.First = before.First
	}
	if done.Stays {
		r.rests = now.Add(restsFor)
	}
	t.put(about, r)
}

// Reconcile takes the reports of the watch, and returns the requests whose pods are terminating, or
// no longer listed, because of them. They stay in doubt until their outcome is observed. After the
// API server has given a request up, its pod's end has another cause, possibly days later. Stays
// reports whether a pod is listed and is not being deleted.
func (t *Tracker) Reconcile(now time.Time, stays, inFlight func(uid string) bool) []*decide.InDoubt {
	t.Forget(inFlight)
	t.open = slices.DeleteFunc(t.open, func(r *request) bool { return !r.MayBeOurs(now) && !stays(r.UID()) })
	var ended []*decide.InDoubt
	for _, r := range t.open {
		if !stays(r.UID()) {
			ended = append(ended, &r.InDoubt)
		}
	}
	return ended
}

// Forget drops the requests whose pods are in flight: what becomes of those is known.
func (t *Tracker) Forget(inFlight func(uid string) bool) {
	t.open = slices.DeleteFunc(t.open, func(r *request) bool { return inFlight(r.UID()) })
}

// of returns the one about a resource; nil where there is none.
func (t *Tracker) of(about decide.Resource) *request {
	if at := slices.IndexFunc(t.open, func(r *request) bool { return r.Asked.Resource() == about }); at >= 0 {
		return t.open[at]
	}
	return nil
}

// put keeps the one about a resource in place of the one before; nil is none.
func (t *Tracker) put(about decide.Resource, r *request) {
	t.open = slices.DeleteFunc(t.open, func(before *request) bool { return before.Asked.Resource() == about })
	if r != nil {
		t.open = append(t.open, r)
	}
}
