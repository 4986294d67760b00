package agent

import (
	"maps"
	"slices"
	"time"

	"github.com/evictd/evictd/internal/nodepods"
)

// A pod that is being ended is relied on for its grace period, from when evictd first sees it
// so: the API server's times are by another clock. A pod that hangs on a volume has been seen
// so long before it counts, on a calm node. So it is noted of each listed pod since when it
// ends, in every rehearsal and before every decision.

// endingSince says since when listed pods are terminating or have finished, by their UID.
type endingSince map[string]time.Time

// note brings it up to date with the list.
func (e endingSince) note(pods []*nodepods.Pod, now time.Time) {
	ends := func(pod *nodepods.Pod) bool { return pod.Terminating || pod.Finished }
	maps.DeleteFunc(e, func(uid string, _ time.Time) bool {
		return !slices.ContainsFunc(pods, func(pod *nodepods.Pod) bool { return pod.UID == uid && ends(pod) })
	})
	for _, pod := range pods {
		if uid := pod.UID; ends(pod) && e[uid].IsZero() {
			e[uid] = now
		}
	}
}

// of returns since when a pod ends; now when it was not noted yet.
func (e endingSince) of(pod *nodepods.Pod, now time.Time) time.Time {
	if since, known := e[pod.UID]; known {
		return since
	}
	return now
}
