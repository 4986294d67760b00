package decide

import (
	"fmt"

	"github.com/evictd/evictd/internal/cooldown"
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
	in, now := s.waitsIn(), s.Pressure.SampleTime
	in.BypassPDB = s.mayBypassPDB()
	waiting, last := [cooldown.KindCount]int{}, [cooldown.KindCount]string{}
	d.Ranking.Withhold(func(e *rank.Entry) rank.Protection {
		why, waits := s.Cooldown.Pod(e.Pod, in, now)
		if !waits {
			return rank.NotProtected
		}
		waiting[why.Kind]++
		e.Detail, last[why.Kind] = why.Detail, e.Pod.Key()+": "+why.Detail
		return protectionOf(why.Kind)
	})
	if len(d.Ranking.Candidates) > 0 {
		return HoldNone, ""
	}
	return allWait(&waiting, &last)
}

// protectionOf returns how a pod that waits appears in the ranking.
func protectionOf(kind cooldown.Kind) rank.Protection {
	switch kind {
	case cooldown.Refused:
		return rank.ProtectedBackingOff
	case cooldown.OwnerBackOff, cooldown.OwnerLimit:
		return rank.ProtectedOwnerBackOff
	default:
		panic(fmt.Sprintf("a wait of no single pod: %v", kind))
	}
}

// allWait says why no pod is evicted while all candidates wait: how many of each kind do, and
// the last of each.
func allWait(waiting *[cooldown.KindCount]int, last *[cooldown.KindCount]string) (Hold, string) {
	refused, backOff, limited := waiting[cooldown.Refused], waiting[cooldown.OwnerBackOff], waiting[cooldown.OwnerLimit]
	switch {
	case backOff > 0:
		return HoldOwnerBackOff, fmt.Sprintf("%d candidates of owners in back-off, %d of owners that reached limits.perOwnerPerHour, %d refused a short while ago; %s",
			backOff, limited, refused, last[cooldown.OwnerBackOff])
	case limited > 0:
		return HoldLimitReached, fmt.Sprintf("%d candidates of owners that reached limits.perOwnerPerHour, %d refused a short while ago; %s",
			limited, refused, last[cooldown.OwnerLimit])
	default:
		return HoldBackingOff, fmt.Sprintf("all %d candidates were refused a short while ago", refused)
	}
}

// candidatesOf returns the candidates of a decision, in order.
func (s *Situation) candidatesOf(d *Decision) []Candidate {
	all := make([]Candidate, 0, len(d.Ranking.Candidates))
	in, now := s.waitsIn(), s.Pressure.SampleTime
	for _, e := range d.Ranking.Candidates {
		why, refused := s.Cooldown.Pod(e.Pod, in, now)
		expected := s.Uses.ByUID[e.Pod.UID].Expected
		all = append(all, Candidate{
			Entry: e, Expected: expected, Reclaim: ReclaimOf(s.Pressure.Threshold.Signal, expected),
			BlockedByPDB: refused, PDB: why.PDB,
			SamePDB: s.Cooldown.SharedPDB(e.Pod, now),
		})
	}
	return all
}
