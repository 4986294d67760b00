package agent

import (
	"slices"
	"time"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/inflight"
	"github.com/evictd/evictd/internal/nodepods"
	"github.com/evictd/evictd/pkg/pressure"
)

// goneFor is how long a pod is relied on that the API server does not know any more, see
// unlisted.go.
const goneFor = unlistedGrace + deadlineMargin

// bookGone books a pod that the API server has forgotten for what it held when the decision
// was made. The next decision measures what its cgroup still holds.
func (a *Agent) bookGone(attempt *decide.Attempt, expected pressure.Amounts, now time.Time) {
	a.bookOthers(attempt, expected, now, goneFor)
}

// bookForeign books a pod whose request nobody heard the end of, and that another has ended
// since: for as long as its own grace period lasts.
func (a *Agent) bookForeign(attempt *decide.Attempt, expected pressure.Amounts, now time.Time) {
	a.bookOthers(attempt, expected, now, inSeconds(attempt.Entry.Pod.GraceSeconds)+deadlineMargin)
}

// bookOthers books a pod that is no victim of evictd's: it counts against no limit, and its
// grace period is not shortened. While it is booked it is no candidate.
func (a *Agent) bookOthers(attempt *decide.Attempt, expected pressure.Amounts, now time.Time, lasts time.Duration) {
	pod := attempt.Entry.Pod
	a.unshown.accept(pod.UID, now, now.Add(lasts))
	a.ledger.Book(inflight.Booking{
		Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID,
		Expected: expected, Accepted: now, Deadline: now.Add(lasts),
	})
}

// isReplaced reports whether the watch lists a candidate no more, right before it is sent, and
// says so. The API server would retry a request with its UID for ten seconds, and charge the
// budget of a new pod of its name (k8s.io/kubernetes pkg/registry/core/pod/storage/eviction.go).
// What its cgroup still holds, the next decision sees.
func (a *Agent) isReplaced(p *plan, c *candidate) bool {
	pod := c.entry.Pod
	listed := slices.ContainsFunc(a.options.Pods.List(), func(one *nodepods.Pod) bool { return one.UID == pod.UID })
	if !listed {
		p.decision.Detail = pod.Key() + " (UID " + pod.UID + ") is not listed any more" + nothingFurther
	}
	return !listed
}
