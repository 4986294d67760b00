package victims

import (
	"slices"
	"strings"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/inflight"
	"github.com/evictd/evictd/internal/measure"
	"github.com/evictd/evictd/internal/nodepods"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/usage"
)

// ObserveUses takes what was measured for a situation: what the victims should still free, and what
// others are ending: by hand, by a controller, by the kubelet, or by evictd before it was started
// again. So no pod is evicted twice for one deficit. A pod whose request is in doubt is evictd's own,
// and is booked as that once its end is known.
func (f *Follower) ObserveUses(s *decide.Situation, uses *decide.Uses) {
	p := &s.Pressure
	signal, until := p.Threshold.Signal, f.OthersUntil(p)
	var others []inflight.Booking
	note := func(b inflight.Booking) {
		b.Accepted, b.Deadline = until.Add(-inflight.HardPatience), until
		others = append(others, b)
	}
	counts := !p.SampleTime.After(until)
	for _, pod := range s.Pods {
		uid := pod.UID
		switch use := uses.ByUID[uid]; {
		case f.Booked(uid):
			if expected, known := f.expectedOf(signal, pod, uses); known {
				f.Expect(uid, expected)
			}
		case !counts || !use.Known || use.Expected.At(signal) <= 0 || f.InDoubt.About(uid) || f.options.SentLast(uid):
		case f.leaves(pod):
			note(inflight.Booking{Namespace: pod.Namespace, Name: pod.Name, UID: uid, Expected: use.Expected})
		}
	}
	for uid, u := range uses.Unlisted {
		switch expected := measure.Expected(u, f.memory); {
		case f.Booked(uid):
			f.Expect(uid, expected)
		case counts && !u.Unused && expected.At(signal) > 0:
			note(inflight.Booking{UID: uid, Unlisted: true, Expected: expected})
		}
	}
	inFlight := f.For(p, decide.TooLate)
	others = slices.DeleteFunc(others, func(o inflight.Booking) bool { // one of the kubelet's that has ended
		return slices.ContainsFunc(inFlight, func(b inflight.Booking) bool { return b.UID == o.UID })
	})
	slices.SortFunc(others, func(a, b inflight.Booking) int { return strings.Compare(a.UID, b.UID) })
	s.Uses, s.InFlight = uses, append(inFlight, others...)
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
