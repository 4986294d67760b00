package inflight

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/evictd/evictd/internal/nodepods"
	"github.com/evictd/evictd/pkg/pressure"
)

// UnlistedFor is how long a pod is relied on that the API server does not list. Its grace
// period is not known: the kubelet gives it the one in its spec (pkg/kubelet/pod_workers.go,
// calculateEffectiveGracePeriod), and this is the one of a pod that writes none.
const UnlistedFor = corev1.DefaultTerminationGracePeriodSeconds*time.Second + DeadlineMargin

// ObserveEnding takes which listed pods are terminating or have finished. A pod that others end
// is relied on from when it was first seen so: the API server's times are by another clock, and
// one that hangs on a volume has been seen so long before it counts, on a calm node.
func (t *Tracker) ObserveEnding(pods []*nodepods.Pod, now time.Time) {
	ends := func(pod *nodepods.Pod) bool { return pod.Terminating || pod.Finished }
	maps.DeleteFunc(t.ending, func(uid string, _ time.Time) bool {
		return !slices.ContainsFunc(pods, func(pod *nodepods.Pod) bool { return pod.UID == uid && ends(pod) })
	})
	for _, pod := range pods {
		if uid := pod.UID; ends(pod) && t.ending[uid].IsZero() {
			t.ending[uid] = now
		}
	}
}

// EndingSince returns since when a pod ends; now when it was not seen to end yet.
func (t *Tracker) EndingSince(uid string, now time.Time) time.Time {
	if since, known := t.ending[uid]; known {
		return since
	}
	return now
}

// ObserveUnlisted takes the cgroups that no listed pod has, by their UIDs. One that is listed
// after all is what the list says.
func (t *Tracker) ObserveUnlisted(found []string, listed func(uid string) bool, now time.Time) {
	maps.DeleteFunc(t.unlisted, func(uid string, _ time.Time) bool {
		if listed(uid) {
			t.lists.forget(uid)
		}
		return listed(uid)
	})
	maps.DeleteFunc(t.bookings, func(uid string, b Booking) bool { return b.Unlisted && listed(uid) })
	for _, uid := range found {
		if t.unlisted[uid].IsZero() {
			t.unlisted[uid] = now
		}
	}
}

// Unlisted returns the booking of a cgroup that no listed pod has; false where it is relied on
// no longer: it is nothing that evictd knows of then, and holds up a node once.
func (t *Tracker) Unlisted(uid string, expected pressure.Amounts, now time.Time) (Booking, bool) {
	since := t.unlisted[uid]
	b := Booking{UID: uid, Unlisted: true, Expected: expected, Accepted: since, Deadline: since.Add(UnlistedFor)}
	return b, !now.After(b.Deadline)
}
