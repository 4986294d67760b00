package agent

import (
	"slices"
	"time"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/execute"
	"github.com/evictd/evictd/internal/incident"
	"github.com/evictd/evictd/internal/nodepods"
)

// unheard is a request in doubt, and until when its pod is not read again; the zero time before
// it was.
type unheard struct {
	decide.InDoubt
	rests time.Time
}

// stillInDoubt returns the request in doubt about a resource; nil where there is none.
// Others are those about other resources whose pods may be terminating because of them. Once a pod
// was seen to terminate, its request is in doubt no more.
func (a *Agent) stillInDoubt(about incident.Resource, now time.Time) (own *decide.InDoubt, others []decide.InDoubt) {
	a.dropBooked()
	for _, u := range a.doubts.all() {
		open := u.InDoubt
		switch {
		case open.Asked.Resource() == about:
			own = &open
		case open.MayBeOurs(now):
			others = append(others, open)
		}
	}
	return own, others
}

// dropBooked forgets the requests whose pods are in flight: what becomes of those is known.
func (a *Agent) dropBooked() {
	a.doubts.drop(func(u *unheard) bool { return a.victims.Booked(u.UID()) })
}

// inDoubtAfter returns the request in doubt about the decision's resource after its plan was carried
// out; nil where there is none. One that may still be carried out stays while no request was sent
// since.
func (a *Agent) inDoubtAfter(d *decide.Decision, r *execute.Report, now time.Time) *unheard {
	before := a.doubts.of(d.Resource())
	sent := slices.ContainsFunc(d.Attempts, func(t decide.Attempt) bool { return !t.Escalates })
	if r.InDoubt == nil {
		if before != nil && !sent && before.MayStillApply(now) {
			return before
		}
		return nil
	}
	open := &unheard{InDoubt: *r.InDoubt}
	if before != nil && before.UID() == open.UID() {
		open.First = before.First
	}
	return open
}

// doubtRests is how long a pod is not read again that was there and may still be evicted by a
// request in doubt.
const doubtRests = time.Second

// restDoubt lets a doubt rest that a look at its pod did not settle. Where the API server
// could not tell, no other request would be answered either, and the cooldown knows.
func (a *Agent) restDoubt(d *decide.Decision, r *execute.Report, now time.Time) {
	if open := a.doubts.of(d.Resource()); open != nil && r.InDoubt != nil && !r.Unread {
		open.rests = now.Add(doubtRests)
	}
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
		case a.stays(open.UID()):
		case !open.MayBeOurs(now), a.victims.Booked(open.UID()): // the latter by one before in this loop
			a.doubts.drop(func(u *unheard) bool { return u == open })
		default:
			a.takeReport(execute.Reconciled(&open.InDoubt, "the watch of the pods"))
		}
	}
}

// stays reports whether the API server lists a pod that is not being deleted.
func (a *Agent) stays(uid string) bool {
	return slices.ContainsFunc(a.options.Pods.List(), func(pod *nodepods.Pod) bool {
		return pod.UID == uid && !pod.Terminating
	})
}
