package decide

import (
	"fmt"

	"github.com/evictd/evictd/pkg/rank"
)

// mayBypassPDB reports whether the decision may bypass a PDB.
func (s *Situation) mayBypassPDB() bool {
	_, waits := s.Cooldown.Bypass(s.Pressure.SampleTime)
	return s.Policy.BestEffort && s.Pressure.Threshold.Hard && !waits
}

// cooldowns withholds the pods that may not be evicted for now. Those that only a PDB blocks stay
// where one may be bypassed.
func cooldowns(s *Situation, d *Decision) (Hold, string) {
	bypass, refused := s.mayBypassPDB(), 0
	d.Ranking.Withhold(func(e *rank.Entry) rank.Protection {
		why, waits := s.Cooldown.Pod(s, e.Pod, bypass)
		if !waits {
			return rank.NotProtected
		}
		refused++
		e.Detail = why.Detail
		return rank.ProtectedBackingOff
	})
	if len(d.Ranking.Candidates) > 0 {
		return HoldNone, ""
	}
	return HoldBackingOff, fmt.Sprintf("all %d candidates were refused a short while ago", refused)
}

// limited returns why no pod of the candidate's owner may be evicted for now.
func (s *Situation) limited(e *rank.Entry) (Wait, bool) {
	return s.Cooldown.Owner(e.Pod.OwnerUID, s.Pressure.SampleTime)
}

// candidatesOf returns the candidates of a decision, in order.
func (s *Situation) candidatesOf(d *Decision) []Candidate {
	all := make([]Candidate, 0, len(d.Ranking.Candidates))
	for _, e := range d.Ranking.Candidates {
		if _, is := s.limited(&e); is {
			continue
		}
		why, refused := s.Cooldown.Pod(s, e.Pod, false)
		expected := s.Uses.ByUID[e.Pod.UID].Expected
		all = append(all, Candidate{
			Entry: e, Expected: expected, Reclaim: ReclaimOf(s.Pressure.Threshold.Signal, expected),
			BlockedByPDB: refused, PDB: why.PDB,
			SamePDB: s.Cooldown.SharedPDB(e.Pod, s.Pressure.SampleTime),
		})
	}
	return all
}
