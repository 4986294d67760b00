package victims

import (
	"slices"
	"sync"
	"time"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/inflight"
	"github.com/evictd/evictd/internal/measure"
	"github.com/evictd/evictd/internal/nodepods"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
	"github.com/evictd/evictd/pkg/usage"
)

// ObserveUses takes what was measured for a situation, and brings what is in flight up to date by
// it: what the victims should still free, and the pods that are in flight although this process did
// not evict them: by hand, by a controller, by the kubelet, or by evictd before it was started
// again. So no pod is evicted twice for one deficit. One whose request is in doubt is evictd's own,
// and is booked as that once its end is known.
func (f *Follower) ObserveUses(s *decide.Situation, uses *decide.Uses) {
	p := &s.Pressure
	s.Uses, s.InFlight = uses, f.All()
	others := inflight.Others{
		Time: p.SampleTime, StallShare: stallShareOf(s),
		Pods: f.ObserveUnlisted(s.Pods, uses, p.SampleTime), Lists: sync.OnceValues(f.readLists),
	}
	for _, pod := range s.Pods {
		uid, leaves := pod.UID, f.leaves(pod)
		if !leaves && !f.Booked(uid) || f.InDoubt.About(uid) || f.options.SentLast(uid) {
			continue
		}
		expected, known := f.expectedOf(p.Threshold.Signal, pod, uses)
		others.Pods = append(others.Pods, inflight.Other{
			Namespace: pod.Namespace, Name: pod.Name, UID: uid, Leaves: leaves, GraceLeft: graceLeft(pod),
			Expected: expected, Known: known, Emptied: uses.ByUID[uid].Emptied,
		})
	}
	f.ObserveOthers(&others)
	s.InFlight, s.FreeOnLists = f.All(), f.FreeOn(p.Threshold.Signal)
}

// ObserveUnlisted notes since when cgroups are there that no listed pod has, and returns what
// they hold, see docs/adr/0020-a-pod-that-is-not-listed-is-in-flight.md.
func (f *Follower) ObserveUnlisted(pods []*nodepods.Pod, uses *decide.Uses, now time.Time) []inflight.Other {
	var found []inflight.Other
	for uid, u := range uses.Unlisted {
		found = append(found, inflight.Other{
			UID: uid, Unlisted: true, Expected: measure.Expected(u, f.memory), Known: true, Emptied: u.Unused,
		})
	}
	listed := func(uid string) bool {
		return slices.ContainsFunc(pods, func(pod *nodepods.Pod) bool { return pod.CgroupUID == uid })
	}
	f.Tracker.ObserveUnlisted(found, listed, now)
	return found
}

// stallShare is the part of what the first candidate holds that a pod must hold for its end
// to matter to a stall, where evictd did not evict it.
const stallShare = 10

// stallShareOf returns [inflight.Others.StallShare]; 0 for other signals than a stall, and where
// there is no candidate.
func stallShareOf(s *decide.Situation) int64 {
	if s.Pressure.Threshold.Signal != pressure.MemoryStall {
		return 0
	}
	ranking := rank.Order(decide.RankedBy(pressure.MemoryStall), s.Facts(), s.Policy.Rules)
	if len(ranking.Candidates) == 0 {
		return 0
	}
	first := s.Uses.ByUID[ranking.Candidates[0].Pod.UID]
	return first.Expected.At(pressure.MemoryAvailable) / stallShare
}

// over reports whether a listed pod has ended, or is terminating and none of its containers
// runs: only its cgroup tells whether it still holds something then.
func over(pod *nodepods.Pod) bool {
	return pod.Finished || pod.Terminating && pod.Started && len(pod.RunningContainers) == 0
}

// leaves reports whether a pod is in flight: the API server says so, or it has
// finished and what it holds is still there. The latter is how the kubelet evicts: it
// deletes nothing, writes that the pod has finished once its containers have ended (Failed,
// or Succeeded where they ended with 0), and then takes down the volumes and the cgroup,
// which may still hold all of a memory emptyDir. A terminating pod that is kept by a finalizer
// alone holds nothing. The deletion of a mirror ends nothing: the kubelet makes it again, and
// the static pod runs on.
func (f *Follower) leaves(pod *nodepods.Pod) bool {
	switch {
	case pod.Mirror && pod.Terminating:
		return false
	case !over(pod):
		return pod.Terminating
	}
	there, err := f.options.Cgroups.Present(pod.CgroupUID)
	return err == nil && there
}

// expectedOf returns what the end of a pod should still free. A pod without a
// cgroup has freed its memory and tasks already, although the API server may list
// it a little longer.
func (f *Follower) expectedOf(signal pressure.Signal, pod *nodepods.Pod, uses *decide.Uses) (pressure.Amounts, bool) {
	if use := uses.ByUID[pod.UID]; use.Known || use.Emptied {
		return use.Expected, true
	}
	if signal.OnDisk() {
		return pressure.Amounts{}, false
	}
	if !f.cgroupGone(pod.CgroupUID) {
		return pressure.Amounts{}, false
	}
	return measure.Expected(&usage.Pod{TasksKnown: true}, f.memory), true
}

// graceLeft returns the most that a terminating pod may still take: the whole of its
// grace period, from the moment it is first seen. The deletion timestamp would say
// it more closely, but by the API server's clock: an hour of skew would make every
// victim stuck at once, and the next one go.
func graceLeft(pod *nodepods.Pod) time.Duration {
	if pod.DeletionGraceSeconds == nil {
		return 0
	}
	return decide.GracePeriod(*pod.DeletionGraceSeconds)
}
