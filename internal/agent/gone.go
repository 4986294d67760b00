package agent

import (
	"time"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/inflight"
	"github.com/evictd/evictd/pkg/pressure"
)

// bookGone books a pod that the API server has forgotten for what it held when the decision
// was made. The next decision measures what its cgroup still holds.
func (a *Agent) bookGone(attempt *decide.Attempt, expected pressure.Amounts, now time.Time) {
	a.bookOthers(attempt, expected, now, now.Add(inflight.UnlistedFor))
}

// bookForeign books a pod whose request nobody heard the end of, and that another has ended
// since: for as long as its own grace period lasts.
func (a *Agent) bookForeign(attempt *decide.Attempt, expected pressure.Amounts, now time.Time) {
	a.bookOthers(attempt, expected, now, deadlineOf(attempt.Entry.Pod.GraceSeconds, now))
}

// bookOthers books a pod that is no victim of evictd's: it counts against no limit, and its
// grace period is not shortened. While it is booked it is no candidate.
func (a *Agent) bookOthers(attempt *decide.Attempt, expected pressure.Amounts, now, deadline time.Time) {
	pod := attempt.Entry.Pod
	a.victims.Accept(inflight.Booking{
		Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID,
		Expected: expected, Accepted: now, Deadline: deadline,
	})
}
