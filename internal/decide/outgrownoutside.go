package decide

import (
	"fmt"
	"slices"

	"github.com/evictd/evictd/pkg/rank"
)

// outgrownOutside withholds small candidates while something outside of the pods uses the signal up: no
// eviction ends that, and the pods would be evicted one after the other. Until memory or PIDs run out none
// of them is evicted. Then a pod is withheld where a larger one must be evicted in any case. A disk that is
// full ends no process, and pods that hold little do not prevent it.
func outgrownOutside(s *Situation, d *Decision) (Hold, string) {
	forecast, growth := &s.Pressure.Forecast, s.growth()
	if !forecast.Known || forecast.Rate <= 0 {
		return HoldNone, ""
	}
	rate := float64(growth.Taken) / growth.Over.Seconds()
	left, all, onDisk := s.remainder(), slices.Clone(d.Ranking.Candidates), s.Pressure.Threshold.Signal.OnDisk()
	withheld := s.withholdOutgrown(d, int64(rate*relief.Seconds()), "what is outside of the pods", func(e *rank.Entry) bool {
		return growth.mayFill(e.Pod.UID) || !onDisk && left.RunsOut(s.endsAfter(e.Pod)) && !s.largerMustGo(e, left.Available-left.Kubelet, rate, all)
	})
	if withheld == 0 || len(d.Ranking.Candidates) > 0 {
		return HoldNone, ""
	}
	return HoldInsufficientReclaim, fmt.Sprintf("what each of the %d candidates would return is used up within %v by what is outside of the pods (%s): look at %s",
		withheld, relief, growth.say(s.Pressure.Threshold.Signal, growth.Grown+growth.Unread), elsewhere(s.Pressure.Threshold.Signal))
}

// mayFill reports whether a pod may use the signal up now: it grew by a twentieth of what was used up since
// the earlier reading, in which it may not have grown yet for most of the time, or it was not read then.
func (g *Growth) mayFill(uid string) bool {
	grown, known := g.ByUID[uid]
	return !known || 20*grown >= g.Taken
}

// largerMustGo reports whether one of the candidates must be evicted even if this one is, and suffices
// alone: at that rate, what is left of the signal is used up before it has ended. A pod with a higher
// priority is not evicted in place of one with a lower.
func (s *Situation) largerMustGo(e *rank.Entry, left int64, rate float64, candidates []rank.Entry) bool {
	signal, missing := s.Pressure.Threshold.Signal, s.Shortage().Missing
	frees := s.Uses.reclaim(signal, e.Pod.UID).Amount
	return slices.ContainsFunc(candidates, func(o rank.Entry) bool {
		r := s.Uses.reclaim(signal, o.Pod.UID)
		return r.Known && r.Amount > frees && r.Amount >= missing && o.EffectivePriority() <= e.EffectivePriority() &&
			float64(left+frees) <= rate*s.endsAfter(o.Pod).Seconds()
	})
}
