package agent

import (
	"slices"
	"time"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/inflight"
	"github.com/evictd/evictd/internal/measure"
	"github.com/evictd/evictd/internal/nodepods"
	"github.com/evictd/evictd/pkg/pressure"
)

// Of a pod that the API server does not list any more only a cgroup is left: see
// docs/adr/0020-a-pod-that-is-not-listed-is-in-flight.md.

// noteUnlisted notes since when cgroups are there that no listed pod has.
func (a *Agent) noteUnlisted(pods []*nodepods.Pod, uses *decide.Uses, now time.Time) {
	listed := func(uid string) bool {
		return slices.ContainsFunc(pods, func(pod *nodepods.Pod) bool { return pod.CgroupUID == uid })
	}
	var found []string
	for uid, u := range uses.Unlisted {
		if !u.Unused {
			found = append(found, uid)
		}
	}
	a.victims.ObserveUnlisted(found, listed, now)
	a.stalls.keep(a.victims.Booked)
}

// bookUnlisted books them, and what victims have left that the API server has forgotten.
func (a *Agent) bookUnlisted(p *pressure.Pressure, uses *decide.Uses, share int64, lists inflight.ReadLists) {
	for uid, u := range uses.Unlisted {
		expected := measure.Expected(u, a.policy.MemoryAvailable)
		if b, counts := a.victims.Unlisted(uid, expected, p.SampleTime); counts && !u.Unused {
			a.victims.AddOther(a.weigh(b, share), p.SampleTime, lists)
		} else {
			a.victims.Expect(uid, expected)
		}
	}
}

// cgroupGone reports whether a pod's cgroup is known to be missing.
func (a *Agent) cgroupGone(uid string) bool {
	there, err := a.options.Cgroups.Present(uid)
	return err == nil && !there
}
