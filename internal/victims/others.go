package victims

import (
	"slices"
	"strings"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/measure"
	"github.com/evictd/evictd/internal/nodepods"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/usage"
)

// ObserveUses takes what was measured for a situation: what the victims should still free, and what
// others are ending: by hand, by a controller, by the kubelet, or by evictd before it was started
// again. So no pod is evicted twice for one deficit.
func (f *Follower) ObserveUses(s *decide.Situation, uses *decide.Uses) {
	p := &s.Pressure
	f.expect(s.Pods, uses, p.Threshold.Signal)
	inFlight, until := f.For(p, s.Met, decide.TooLate), f.OthersUntil(s.Met)
	var others []decide.Victim
	if !p.SampleTime.After(until) {
		others = f.others(s.Pods, uses, p.Threshold.Signal)
	}
	others = slices.DeleteFunc(others, func(o decide.Victim) bool { // one of the kubelet's that has ended
		return slices.ContainsFunc(inFlight, func(b decide.Victim) bool { return b.UID == o.UID })
	})
	for i := range others {
		others[i].Accepted, others[i].Deadline = until.Add(-decide.HardPatience), until
	}
	slices.SortFunc(others, func(a, b decide.Victim) int { return strings.Compare(a.UID, b.UID) })
	s.Uses, s.InFlight = uses, append(inFlight, others...)
}

// expect brings up to date what the booked pods should still free.
func (f *Follower) expect(pods []*nodepods.Pod, uses *decide.Uses, signal pressure.Signal) {
	for _, pod := range pods {
		if !f.Booked(pod.UID) {
			continue
		}
		if expected, known := f.expectedOf(signal, pod, uses); known {
			f.Expect(pod.UID, expected)
		}
	}
	for uid, u := range uses.Unlisted {
		if f.Booked(uid) {
			f.Expect(uid, measure.Expected(u, f.memory))
		}
	}
}

// others returns what others are ending that holds some of the signal. A pod whose request is in doubt
// is evictd's own, and is booked as that once its end is known.
func (f *Follower) others(pods []*nodepods.Pod, uses *decide.Uses, signal pressure.Signal) []decide.Victim {
	var others []decide.Victim
	for _, pod := range pods {
		uid, use := pod.UID, uses.ByUID[pod.UID]
		holds := use.Known && use.Expected.At(signal) > 0 && !f.Booked(uid)
		if holds && !f.InDoubt.About(uid) && !f.options.SentLast(uid) && f.leaves(pod) {
			others = append(others, decide.Victim{Namespace: pod.Namespace, Name: pod.Name, UID: uid, Expected: use.Expected})
		}
	}
	for uid, u := range uses.Unlisted {
		if expected := measure.Expected(u, f.memory); !u.Unused && expected.At(signal) > 0 && !f.Booked(uid) {
			others = append(others, decide.Victim{UID: uid, Unlisted: true, Expected: expected})
		}
	}
	return others
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
