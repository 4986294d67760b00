package decide

import (
	"slices"

	"github.com/evictd/evictd/internal/nodepods"
	"github.com/evictd/evictd/pkg/rank"
)

// Under hard pressure a victim of evictd's own that is overdue gets a shorter grace period before
// another pod is evicted: docs/adr/0023-shorten-the-grace-of-an-overdue-victim.md.

// overdue returns a victim that should end sooner, the one that was accepted first: evictd evicted it, it
// is no longer relied on, and it still holds something of what is missing. Nil where there is none.
func (s *Situation) overdue() *nodepods.Pod {
	p := &s.Pressure
	if !p.Threshold.Hard || s.Policy.OverdueGrace <= 0 {
		return nil
	}
	for i := range s.InFlight {
		b := &s.InFlight[i]
		if !b.MayEscalate() || b.DryRun != s.Policy.DryRun || b.ReliedOn(p) || b.Expected.At(p.Threshold.Signal) <= 0 {
			continue
		}
		at := slices.IndexFunc(s.Pods, func(pod *nodepods.Pod) bool { return pod.UID == b.UID })
		if at >= 0 && grantedTo(s.Pods[at], b) > s.Policy.overdueGrace() {
			return s.Pods[at]
		}
	}
	return nil
}

// grantedTo returns the grace period that a victim has, in seconds. It is the API server's figure,
// which may be less than the granted one when another client has shortened it. When the watch has
// not reported it, and in a dry run, it is the booked one.
func grantedTo(pod *nodepods.Pod, b *Victim) int64 {
	if granted := pod.DeletionGraceSeconds; granted != nil {
		return *granted
	}
	return b.GraceSeconds
}

// escalation returns the request to end a victim sooner; nil without a victim, or where
// it is not known what it still uses.
func (s *Situation) escalation() *Attempt {
	victim := s.overdue()
	if victim == nil || !s.Uses.ByUID[victim.UID].Known {
		return nil
	}
	resource, seconds := RankedBy(s.Pressure.Threshold.Signal), s.Policy.overdueGrace()
	pod := victim.Facts(resource)
	pod.Usage, pod.Sampled = s.Uses.ByUID[victim.UID].Value, true
	return &Attempt{
		// No place in the ranking: it is no candidate.
		Entry: rank.Entry{
			Pod: &pod, Resource: resource, Over: pod.Usage - pod.Request, Exceeds: pod.Usage > pod.Request,
			Protection: rank.ProtectedTerminating,
		},
		GraceSeconds: &seconds, Escalates: true,
	}
}
