package agent

import (
	"slices"
	"sync"
	"time"

	"github.com/evictd/evictd/internal/cooldown"
	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/execute"
	"github.com/evictd/evictd/internal/incident"
	"github.com/evictd/evictd/internal/inflight"
	"github.com/evictd/evictd/internal/measure"
	"github.com/evictd/evictd/internal/nodepods"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
	"github.com/evictd/evictd/pkg/usage"
)

// book notes an accepted eviction, and nothing else: a refusal frees nothing.
func (a *Agent) book(d *decide.Decision, accepted *decide.Attempt, r *execute.Report, now time.Time) {
	simulated := accepted.Result.Outcome.Simulated()
	if simulated && !a.policy.DryRun {
		return // the dry run ended meanwhile
	}
	pod, grace := accepted.Entry.Pod, accepted.Grace()
	a.incidents.Add(d.Incident, incident.Victim{Pod: pod.Key(), UID: pod.UID, DryRun: simulated})
	a.cooldown.Accept(cooldown.VictimOf(&d.Ranking, pod, simulated), now)
	a.victims.Accept(inflight.Booking{
		Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID,
		Expected: r.Expected,
		Held:     r.Held,
		Signal:   d.Pressure.Threshold.Signal.String(),
		Accepted: now,
		Deadline: deadlineOf(grace, now),

		GraceSeconds: grace,
		DryRun:       simulated,
	})
}

// deadlineOf returns when a pod should be gone that was given a grace period, in seconds.
func deadlineOf(grace int64, now time.Time) time.Time {
	return now.Add(decide.GracePeriod(grace) + inflight.DeadlineMargin)
}

// reconcileInDoubt settles the requests in doubt when the watch tells that their pods are
// terminating, or lists them no more.
func (a *Agent) reconcileInDoubt(now time.Time) {
	if a.acting != nil || !a.options.Pods.Synced() {
		return
	}
	for _, open := range a.inDoubt.Reconcile(now, a.stays, a.victims.Booked) {
		if !a.victims.Booked(open.UID()) { // by one before in this loop
			a.takeReport(execute.Reconciled(open, "the watch of the pods"))
		}
	}
}

// stays reports whether the API server lists a pod that is not being deleted.
func (a *Agent) stays(uid string) bool {
	return slices.ContainsFunc(a.options.Pods.List(), func(pod *nodepods.Pod) bool {
		return pod.UID == uid && !pod.Terminating
	})
}

// letGo ends the bookings of victims that have gone: the API server does not list
// the pod any more, or lists it as finished, and its cgroup is not there either. A
// force-deleted pod that still runs still holds what it holds. It returns the bookings
// that have ended.
func (a *Agent) letGo(now time.Time) []inflight.Booking {
	if !a.options.Pods.Synced() {
		return nil
	}
	present := func(uid string) bool {
		if a.listed()[uid] {
			return true
		}
		there, err := a.options.Cgroups.Present(uid)
		if err != nil {
			a.options.Recorder.ReadError(measure.SourceUsage, err)
			return true // unknown is not gone
		}
		return there
	}
	ended := a.victims.Observe(now, present, a.cgroupGone)
	a.cooldown.Forget(present)
	a.options.Recorder.Ledger(now, a.victims.All())
	a.options.Recorder.LeftAlone(a.cooldown.Waiting(now))
	return ended
}

// cgroupGone reports whether a pod's cgroup is known to be missing.
func (a *Agent) cgroupGone(uid string) bool {
	there, err := a.options.Cgroups.Present(uid)
	return err == nil && !there
}

// listed returns the pods that the API server lists and that have not finished, once for a
// tick. It is called only where a pod is in flight: a calm tick makes no map.
func (a *Agent) listed() map[string]bool {
	if a.listedNow != nil {
		return a.listedNow
	}
	pods := a.options.Pods.List()
	uids := make(map[string]bool, len(pods))
	for _, pod := range pods {
		if !over(pod) { // what the kubelet evicted stays listed, and what a finalizer keeps
			uids[pod.UID] = true
		}
	}
	a.listedNow = uids
	return uids
}

// over reports whether a listed pod has ended, or is terminating and none of its containers
// runs: only its cgroup tells whether it still holds something then.
func over(pod *nodepods.Pod) bool {
	return pod.Finished || pod.Terminating && pod.Started && len(pod.RunningContainers) == 0
}

// bookLeaving notes what the victims should still free, and the pods that are in flight although
// this process did not evict them: by hand, by a controller, by the kubelet, or by evictd before it
// was started again. So no pod is evicted twice for one deficit. One whose request is in doubt is
// evictd's own, and is booked as that once its end is known.
func (a *Agent) bookLeaving(p *pressure.Pressure, pods []*nodepods.Pod, uses *decide.Uses) {
	unlisted := a.observeUnlisted(pods, uses, p.SampleTime)
	others := inflight.Others{
		Time: p.SampleTime, StallShare: a.stallShareOf(p, pods, uses),
		Pods: unlisted, Lists: sync.OnceValues(a.readLists),
	}
	for _, pod := range pods {
		uid, leaves := pod.UID, a.leaves(pod)
		if !leaves && !a.victims.Booked(uid) || a.inDoubt.About(uid) || a.asksFor(uid) {
			continue
		}
		expected, known := a.expectedOf(p.Threshold.Signal, pod, uses)
		others.Pods = append(others.Pods, inflight.Other{
			Namespace: pod.Namespace, Name: pod.Name, UID: uid, Leaves: leaves, GraceLeft: graceLeft(pod),
			Expected: expected, Known: known, Emptied: uses.ByUID[uid].Emptied,
		})
	}
	a.victims.ObserveOthers(&others)
}

// observeUnlisted notes since when cgroups are there that no listed pod has, and returns what
// they hold, see docs/adr/0020-a-pod-that-is-not-listed-is-in-flight.md.
func (a *Agent) observeUnlisted(pods []*nodepods.Pod, uses *decide.Uses, now time.Time) []inflight.Other {
	var found []inflight.Other
	for uid, u := range uses.Unlisted {
		found = append(found, inflight.Other{
			UID: uid, Unlisted: true, Expected: measure.Expected(u, a.policy.MemoryAvailable), Known: true, Emptied: u.Unused,
		})
	}
	listed := func(uid string) bool {
		return slices.ContainsFunc(pods, func(pod *nodepods.Pod) bool { return pod.CgroupUID == uid })
	}
	a.victims.ObserveUnlisted(found, listed, now)
	return found
}

// stallShare is the part of what the first candidate holds that a pod must hold for its end
// to matter to a stall, where evictd did not evict it.
const stallShare = 10

// stallShareOf returns [inflight.Others.StallShare]; 0 for other signals than a stall, and where
// there is no candidate.
func (a *Agent) stallShareOf(p *pressure.Pressure, pods []*nodepods.Pod, uses *decide.Uses) int64 {
	if p.Threshold.Signal != pressure.MemoryStall {
		return 0
	}
	ranking := rank.Order(decide.RankedBy(p.Threshold.Signal), a.facts(p, pods, uses), a.policy.Rules)
	if len(ranking.Candidates) == 0 {
		return 0
	}
	first := uses.ByUID[ranking.Candidates[0].Pod.UID]
	return first.Expected.At(pressure.MemoryAvailable) / stallShare
}

// asksFor reports whether the walk under way has asked for a pod last: its report says what came
// of it.
func (a *Agent) asksFor(uid string) bool {
	return a.acting != nil && a.executor.SentLast(uid)
}

// leaves reports whether a pod is on its way out: the API server says so, or it has
// finished and what it holds is still there. The latter is how the kubelet evicts: it
// deletes nothing, writes that the pod has finished once its containers have ended (Failed,
// or Succeeded where they ended with 0), and then takes down the volumes and the cgroup,
// which may still hold all of a memory emptyDir. A terminating pod that is kept by a finalizer
// alone holds nothing. The deletion of a mirror ends nothing: the kubelet makes it again, and
// the static pod runs on.
func (a *Agent) leaves(pod *nodepods.Pod) bool {
	switch {
	case pod.Mirror && pod.Terminating:
		return false
	case !over(pod):
		return pod.Terminating
	}
	there, err := a.options.Cgroups.Present(pod.CgroupUID)
	return err == nil && there
}

// terminating looks a pod up that the API server may list as being deleted. It is asked about
// the few victims of which that is not known otherwise.
func (a *Agent) terminating(uid string) bool {
	return slices.ContainsFunc(a.options.Pods.List(), func(pod *nodepods.Pod) bool {
		return pod.UID == uid && pod.Terminating
	})
}

// expectedOf returns what the end of a pod should still free. A pod without a
// cgroup has freed its memory and tasks already, although the API server may list
// it a little longer.
func (a *Agent) expectedOf(signal pressure.Signal, pod *nodepods.Pod, uses *decide.Uses) (pressure.Amounts, bool) {
	if use := uses.ByUID[pod.UID]; use.Known || use.Emptied {
		return use.Expected, true
	}
	if signal.OnDisk() {
		return pressure.Amounts{}, false
	}
	there, err := a.options.Cgroups.Present(pod.CgroupUID)
	if err != nil || there {
		return pressure.Amounts{}, false
	}
	return measure.Expected(&usage.Pod{TasksKnown: true}, a.policy.MemoryAvailable), true
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
