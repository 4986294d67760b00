package agent

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/inflight"
	"github.com/evictd/evictd/internal/measure"
	"github.com/evictd/evictd/internal/nodepods"
	"github.com/evictd/evictd/pkg/pressure"
)

// The API server forgets a pod at once whose grace period is 0, or that somebody deletes by
// force; its processes go on for a while, and what they hold comes back when they end. Of
// such a pod only a cgroup is left whose UID no listed pod has. Somebody who deletes by
// hand, or evictd before it was started again, has asked for it: nobody else goes for what
// it holds.
//
//   - It counts from the first sight: the first decision after a restart must see it. A new
//     pod whose cgroup is there before the watch tells of it counts too, until the watch
//     does, mostly milliseconds, and for no more than it holds by then. To wait so long for
//     nothing is a delay; to take it for nothing when it is leaving is one victim too many.
//   - Its grace period is not known. The kubelet gives a pod whose end it learns only by its
//     absence the one in its spec (pkg/kubelet/pod_workers.go, calculateEffectiveGracePeriod).
//     So it is relied on for the one of a pod that writes none, and the kubelet's clean-up.
//   - After that it is nothing that evictd knows of: a cgroup that never goes, or a static
//     pod that has no mirror, holds up a node once. Calm nodes' cgroups are looked at too, so
//     that such a one is old when it counts.
//   - Not for disks: what it holds there is not measured.

// unlistedGrace is how long a pod that the API server does not list may go on.
const unlistedGrace = corev1.DefaultTerminationGracePeriodSeconds * time.Second

// noteUnlisted notes since when cgroups are there that no listed pod has. A pod that is
// listed after all is what the list says.
func (a *Agent) noteUnlisted(pods []*nodepods.Pod, uses *decide.Uses, now time.Time) {
	listed := func(uid string) bool {
		return slices.ContainsFunc(pods, func(pod *nodepods.Pod) bool { return pod.CgroupUID == uid })
	}
	maps.DeleteFunc(a.unlisted, func(uid string, _ time.Time) bool {
		if listed(uid) {
			a.unshown.forget(uid)
		}
		return listed(uid)
	})
	a.ledger.ForgetUnlisted(listed)
	a.stalls.keep(a.ledger.Booked)
	for uid, u := range uses.Unlisted {
		if a.unlisted[uid].IsZero() && !u.Unused {
			a.unlisted[uid] = now
		}
	}
}

// bookUnlisted books them, and what victims have left that the API server has forgotten.
func (a *Agent) bookUnlisted(p *pressure.Pressure, uses *decide.Uses, share int64, lists func() (int64, bool)) {
	for uid, u := range uses.Unlisted {
		expected, since := measure.Expected(u, a.policy.MemoryAvailable), a.unlisted[uid]
		deadline := since.Add(unlistedGrace + deadlineMargin)
		if p.SampleTime.After(deadline) || u.Unused {
			a.ledger.Expect(uid, expected)
			continue
		}
		booking := inflight.Booking{UID: uid, Unlisted: true, Expected: expected, Accepted: since, Deadline: deadline}
		a.bookOther(a.weigh(booking, share), p.SampleTime, lists)
	}
}

// forgetUnlisted forgets those whose cgroups have gone.
func (a *Agent) forgetUnlisted() {
	maps.DeleteFunc(a.unlisted, func(uid string, _ time.Time) bool {
		there, err := a.options.Cgroups.Present(uid)
		return err == nil && !there
	})
}
