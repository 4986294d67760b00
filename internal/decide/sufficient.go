package decide

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/evictd/evictd/internal/wording"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
)

// No pod is evicted without effect: the candidates together must be able to free enough, and a
// small one is skipped while larger ones suffice. The rules are in
// docs/adr/0005-no-eviction-where-reclaim-is-insufficient.md.

// Supply is what the ends of the pods should free, and how far that is known.
type Supply struct {
	// Uses is what the pods use, and what their ends should free.
	Uses *Uses
	// Least is limits.minimumReclaimShare; zero judges no candidate by it.
	Least pressure.Quantity
}

// Unmeasured is a pod that was not measured completely, and why; Told says that the source gave
// that reason itself.
type Unmeasured struct {
	Pod, Why string
	Told     bool
}

// Judges reports whether a pod may be withheld because the candidates could not free what is
// needed.
func (s *Supply) Judges() bool { return !s.Least.IsZero() || len(s.Uses.Incomplete) > 0 }

// Withhold holds a decision when all candidates together could not free what is required, and
// otherwise withholds those that would free too little of what is missing. When not every pod is
// known completely, only candidates that suffice are evicted, whatever the rules.
func (s *Supply) Withhold(d *Decision, short *Shortage, within WithinRequests) (Hold, string) {
	if short.Missing == 0 || !s.Judges() {
		return HoldNone, ""
	}
	signal := d.Pressure.Threshold.Signal
	reclaims, required := s.of(signal, d.Ranking.Candidates), short.Required(&d.Pressure, s.Least)
	if !Suffice(required, reclaims) {
		if len(s.Uses.Incomplete) > 0 {
			return HoldUsageUnknown, s.NotKnownToSuffice(signal, required)
		}
		return HoldInsufficientReclaim, insufficient(d, short, reclaims, s.Least)
	}
	withholdSmall(d, short, reclaims, s.notYet(d, within), s.Least)
	if len(d.Ranking.Candidates) == 0 {
		return HoldInsufficientReclaim, allSmall(d, short, reclaims, s.Least)
	}
	return HoldNone, ""
}

func (s *Supply) of(signal pressure.Signal, entries []rank.Entry) []Reclaim {
	reclaims := make([]Reclaim, 0, len(entries))
	for i := range entries {
		reclaims = append(reclaims, s.Uses.reclaim(signal, entries[i].Pod.UID))
	}
	return reclaims
}

// notYet returns what the pods within their requests would free, the largest first, when one of
// them is evicted once the signal runs out.
func (s *Supply) notYet(d *Decision, within WithinRequests) []Reclaim {
	if within == WithinRequestsAlways {
		return nil
	}
	later := slices.DeleteFunc(slices.Clone(d.Ranking.Protected), func(e rank.Entry) bool {
		return e.Protection != rank.ProtectedWithinRequests
	})
	reclaims := s.of(d.Pressure.Threshold.Signal, later)
	slices.SortFunc(reclaims, func(a, b Reclaim) int { return cmp.Compare(b.Amount, a.Amount) })
	return reclaims
}

// withholdSmall withholds the candidates that would free less than the minimum share of what is
// missing to the target, if the larger ones suffice without them: for the target, or, when all
// candidates together cannot reach it, for what is required. Later are the pods that become
// candidates after them: if one of those uses up the signal, the small ones before it would be
// evicted one by one until then.
func withholdSmall(d *Decision, s *Shortage, releases, later []Reclaim, least pressure.Quantity) {
	signal, goal, atLeast := d.Pressure.Threshold.Signal, s.Missing, least.Of(s.Missing)
	all := slices.Concat(releases, later)
	if !Suffice(goal, all) {
		goal = max(1, s.Required(&d.Pressure, least))
	}
	if !largerSuffice(goal, atLeast, all) {
		return
	}
	d.Ranking.Withhold(func(e *rank.Entry) rank.Protection {
		r := releases[e.Position-1]
		if !r.Known || r.Amount >= atLeast {
			return rank.NotProtected
		}
		e.Detail = fmt.Sprintf("%s of the %s that are missing, limits.minimumReclaimShare is %v",
			wording.Amount(signal, r.Amount), wording.Amount(signal, s.Missing), least)
		return rank.ProtectedReclaimTooSmall
	})
}
