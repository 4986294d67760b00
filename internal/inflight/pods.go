package inflight

import (
	"slices"

	"github.com/evictd/evictd/internal/nodepods"
)

// Present reports whether a pod is there: the API server lists it and it has not finished, or its
// cgroup is there. A force-deleted pod that still runs still holds what it holds.
func (t *Tracker) Present(uid string) bool {
	if t.isListed(uid) {
		return true
	}
	there, known := t.options.Measurer.Present(uid)
	return there || !known // unknown does not mean ended
}

// isListed reports whether the API server lists a pod that has not ended. It is called only where a
// pod is in flight: a calm tick makes no map.
func (t *Tracker) isListed(uid string) bool {
	if t.listed == nil {
		pods := t.options.Pods.List()
		t.listed = make(map[string]bool, len(pods))
		for _, pod := range pods {
			if !over(pod) { // what the kubelet evicted stays listed, and what a finalizer keeps
				t.listed[pod.UID] = true
			}
		}
	}
	return t.listed[uid]
}

// stays reports whether the API server lists a pod that is not being deleted.
func (t *Tracker) stays(uid string) bool {
	return slices.ContainsFunc(t.options.Pods.List(), func(pod *nodepods.Pod) bool { return pod.UID == uid && !pod.Terminating })
}

// over reports whether a listed pod has ended, or is terminating and none of its containers
// runs: only its cgroup tells whether it still holds something then.
func over(pod *nodepods.Pod) bool {
	return pod.Finished || pod.Terminating && pod.Started && len(pod.RunningContainers) == 0
}

// leaves reports whether others end a pod that holds something: the API server says so, or it has
// finished and what it holds is still there. The latter is how the kubelet evicts: it
// deletes nothing, writes that the pod has finished once its containers have ended (Failed,
// or Succeeded where they ended with 0), and then takes down the volumes and the cgroup,
// which may still hold all of a memory emptyDir. A terminating pod that is kept by a finalizer
// alone holds nothing. The deletion of a mirror ends nothing: the kubelet makes it again, and
// the static pod runs on.
func (t *Tracker) leaves(pod *nodepods.Pod) bool {
	switch {
	case pod.Mirror && pod.Terminating:
		return false
	case !over(pod):
		return pod.Terminating
	}
	there, _ := t.options.Measurer.Present(pod.CgroupUID)
	return there
}
