package decide

import (
	"fmt"
	"time"

	"github.com/evictd/evictd/internal/wording"
	"github.com/evictd/evictd/pkg/rank"
)

// Where a pod within its request uses the signal up, small pods beside it are not evicted in its
// place: docs/adr/0032-small-candidates-beside-a-growing-pod.md.

// relief is for how long the end of a pod must make up for what is being used up.
const relief = 30 * time.Second

// Growth is what changed since a reading of the node and its pods some seconds before. The zero
// value is not known.
type Growth struct {
	// Taken is how much less of the signal is available than then, in its unit; 0 or less where it
	// was not used up.
	Taken int64
	// ByUID is how much more a pod's end should free than then. A pod that is missing was not
	// read at both times.
	ByUID map[string]int64
}

// growing are the pods within their requests that use the signal up.
type growing struct {
	names    []string
	grown    int64 // since the earlier reading
	frees    int64 // by their ends
	priority int32 // the lowest of theirs, as the root sees it
}

// outgrown withholds the candidates whose reclaim would be used up again within seconds, by pods
// within their requests that can be evicted once the signal runs out and then suffice.
func outgrown(s *Situation, d *Decision) (Hold, string) {
	signal, soon, by := s.Pressure.Threshold.Signal, s.usedUpSoon(), s.growing(d)
	if soon <= 0 || len(by.names) == 0 || 2*by.grown < s.Uses.Growth.Taken || by.frees < s.Shortage().Missing {
		return HoldNone, ""
	}
	withheld := 0
	d.Ranking.Withhold(func(e *rank.Entry) rank.Protection {
		r := ReclaimOf(signal, s.Uses.ByUID[e.Pod.UID].Expected)
		if !r.Known || r.Amount >= soon || s.grows(e) || e.EffectivePriority() < by.priority {
			return rank.NotProtected
		}
		withheld++
		e.Detail = fmt.Sprintf("its %s would be used up within %v by %s", wording.Amount(signal, r.Amount), relief, wording.Few(by.names))
		return rank.ProtectedReclaimTooSmall
	})
	if len(d.Ranking.Candidates) > 0 {
		return HoldNone, ""
	}
	return HoldInsufficientReclaim, fmt.Sprintf(
		"what each of the %d candidates would return is used up within %v: %s use up %s within their requests, and are evicted first when it runs out",
		withheld, relief, wording.Few(by.names), signal)
}

// usedUpSoon returns how much of the signal is surely used up while a reclaim should last, in its unit;
// 0 where that is not known, and where small candidates are not withheld for it.
func (s *Situation) usedUpSoon() int64 {
	forecast := &s.Pressure.Forecast
	if !forecast.Known || s.Policy.MinimumReclaim.IsZero() || !s.Policy.WithinRequests.untilExhaustion() {
		return 0
	}
	return int64(forecast.Least * relief.Seconds())
}

// growing returns the pods within their requests that use the signal up and may be evicted, now or
// once it runs out. It knows none where the readings do not tell.
func (s *Situation) growing(d *Decision) growing {
	var by growing
	for _, entries := range [][]rank.Entry{d.Ranking.Candidates, d.Ranking.Protected} {
		for i := range entries {
			e := &entries[i]
			r := ReclaimOf(s.Pressure.Threshold.Signal, s.Uses.ByUID[e.Pod.UID].Expected)
			if !s.grows(e) || !r.Known {
				continue
			}
			if priority := e.EffectivePriority(); len(by.names) == 0 || priority < by.priority {
				by.priority = priority
			}
			by.names = append(by.names, e.Pod.Key())
			by.grown += s.Uses.Growth.ByUID[e.Pod.UID]
			by.frees += r.Amount
		}
	}
	return by
}

// grows reports whether a pod is within its request, may be evicted, now or once the signal runs
// out, and grew by at least a quarter of what was used up.
func (s *Situation) grows(e *rank.Entry) bool {
	growth := &s.Uses.Growth
	if growth.Taken <= 0 || e.Exceeds || e.Protection != rank.NotProtected && e.Protection != rank.ProtectedWithinRequests {
		return false
	}
	grown, known := growth.ByUID[e.Pod.UID]
	return known && 4*grown >= growth.Taken
}
