package decide

import (
	"cmp"
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
		// What it was granted is the API server's figure, which is less than the booked one when another client
		// has shortened it. The booked one counts until the watch reports it, and in a dry run.
		if at >= 0 && *cmp.Or(s.Pods[at].DeletionGraceSeconds, &b.GraceSeconds) > s.Policy.overdueGrace() {
			return s.Pods[at]
		}
	}
	return nil
}

// escalation returns the request to end a victim sooner; nil without a victim, or where
// it is not known what it still uses.
func (s *Situation) escalation() *Attempt {
	victim := s.overdue()
	if victim == nil || !s.Uses.ByUID[victim.UID].Known {
		return nil
	}
	signal, seconds := s.Pressure.Threshold.Signal, s.Policy.overdueGrace()
	facts := s.Uses.Facts(signal, []*nodepods.Pod{victim})
	facts[0].Terminating = true // no candidate: it has no place in the ranking
	return &Attempt{Entry: rank.Order(RankedBy(signal), facts, rank.Rules{}).Protected[0], GraceSeconds: &seconds, Escalates: true}
}
