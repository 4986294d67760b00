package decide

import (
	"cmp"
	"fmt"
	"time"

	"github.com/evictd/evictd/internal/wording"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
)

// What a pod's end frees must last. Where it would be used up again within seconds, by a pod that is
// evicted later or is not known yet, the pod is not evicted in its place:
// docs/adr/0032-small-candidates-beside-a-growing-pod.md.

// relief is for how long the end of a pod must make up for what is being used up.
const relief = 30 * time.Second

// Growth is what changed since a reading of the node and its pods some seconds before. The zero
// value is not known.
type Growth struct {
	// Over is how long ago that reading was.
	Over time.Duration
	// Taken is how much less of the signal is available than then, in its unit; 0 or less where it
	// was not used up.
	Taken int64
	// Grown is by how much those pods grew together that did. It is more than Taken where others
	// gave something back.
	Grown int64
	// ByUID is how much more a pod's end should free than then. A pod that is missing was not
	// read at both times; Unread is what the ends of those should free.
	ByUID  map[string]int64
	Unread int64
	// Steady is how fast those pods grow together that have grown all the time over SteadyOver, in the
	// signal's unit a second. 0 where there are none, and while too few readings tell.
	Steady     float64
	SteadyOver time.Duration
}

// growth returns what changed, with no more used up than by the forecast's rate. Noise moves a single
// reading, and a step between the two readings has passed.
func (s *Situation) growth() Growth {
	growth, forecast := s.Uses.Growth, &s.Pressure.Forecast
	if forecast.Known {
		growth.Taken = min(growth.Taken, int64(forecast.Rate*growth.Over.Seconds()))
	}
	return growth
}

// outside reports whether most of what was used up was not used by the pods.
func (g *Growth) outside() bool {
	return g.Over > 0 && g.Taken > 0 && 2*(g.Grown+g.Unread) < g.Taken
}

// say compares by how much pods grew with what was used up.
func (g *Growth) say(signal pressure.Signal, grown int64) string {
	return fmt.Sprintf("in %v the pods grew by %s, and %s was used up",
		g.Over.Round(100*time.Millisecond), wording.Amount(signal, grown), wording.Amount(signal, g.Taken))
}

// by reports whether a pod grew by at least a quarter of what was used up.
func (g *Growth) by(uid string) bool {
	grown, known := g.ByUID[uid]
	return known && grown > 0 && 4*grown >= max(g.Taken, g.Grown)
}

// confirm returns the forecast with the rate at which pods grow steadily in place of a slower certain rate.
// On a busy node, readings vary so much that for seconds no rate is certain; that pods grow meanwhile is a
// second measure of the same fall. It is no faster than the fall, and only as far ahead as it was observed.
func (g *Growth) confirm(f pressure.Forecast) pressure.Forecast {
	if rate := min(f.Rate, g.Steady); rate > f.Least {
		f.Least, f.Over = rate, min(f.Over, g.SteadyOver)
	}
	return f
}

// outgrown withholds the candidates whose reclaim would be used up again within seconds: of memory by
// pods that are evicted next or by what is outside of the pods, of a disk by whatever the figures do not
// show yet.
func outgrown(s *Situation, d *Decision) (Hold, string) {
	growth := s.growth()
	switch {
	case s.Policy.MinimumReclaim.IsZero(): // no candidate counts as too small
		return HoldNone, ""
	case s.unseen():
		return outgrownUnseen(s, d)
	case growth.outside():
		return outgrownOutside(s, d)
	case s.Pressure.Threshold.Signal.OnDisk():
		return HoldNone, ""
	default:
		return outgrownWithin(s, d)
	}
}

// withholdOutgrown withholds the candidates that free less than is used up soon, unless they are kept,
// and returns how many. By says what uses it up.
func (s *Situation) withholdOutgrown(d *Decision, soon int64, by string, kept func(*rank.Entry) bool) (withheld int) {
	signal := s.Pressure.Threshold.Signal
	d.Ranking.Withhold(func(e *rank.Entry) rank.Protection {
		r := s.Uses.reclaim(signal, e.Pod.UID)
		if !r.Known || r.Amount >= soon || kept(e) {
			return rank.NotProtected
		}
		withheld++
		e.Detail = fmt.Sprintf("its %s would be used up within %v by %s", wording.Amount(signal, r.Amount), relief, by)
		return rank.ProtectedReclaimTooSmall
	})
	return withheld
}

// unseen reports whether the figures of a disk do not show what fills it: they are from before the
// pressure, or there is no earlier measurement to compare them with.
func (s *Situation) unseen() bool {
	return s.Pressure.Threshold.Signal.OnDisk() && (s.Uses.Outdated != "" || s.Uses.Growth.Over == 0)
}

// outgrownUnseen withholds small candidates for a disk while the figures do not show what fills it, and a
// measurement that does is awaited.
func outgrownUnseen(s *Situation, d *Decision) (Hold, string) {
	forecast := &s.Pressure.Forecast
	if !forecast.Known {
		return HoldNone, ""
	}
	soon, growth := int64(forecast.Least*relief.Seconds()), s.growth()
	withheld := s.withholdOutgrown(d, soon, "what fills the disk", func(e *rank.Entry) bool { return growth.by(e.Pod.UID) })
	if withheld == 0 || len(d.Ranking.Candidates) > 0 {
		return HoldNone, ""
	}
	return HoldUsageUnknown, fmt.Sprintf("what each of the %d candidates would return is used up within %v, and %s",
		withheld, relief, cmp.Or(s.Uses.Outdated, "the pods are measured again to see which of them grows"))
}

// growing are the pods that use the signal up, within their requests or beyond.
type growing struct {
	names    []string
	grown    int64 // since the earlier reading
	frees    int64 // by their ends
	priority int32 // the lowest of theirs, as the root sees it
}

// outgrownWithin withholds small candidates beside pods that use the signal up, can be evicted, within
// their requests once it runs out, and then suffice. How fast they use it up is by their own figures:
// what is available on the node moves for other reasons too.
func outgrownWithin(s *Situation, d *Decision) (Hold, string) {
	by, growth := s.growing(d), s.growth()
	if len(by.names) == 0 || 2*by.grown < growth.Taken || by.frees < s.Shortage().Missing {
		return HoldNone, ""
	}
	names, soon := wording.Few(by.names), int64(float64(by.grown)*float64(relief)/float64(growth.Over))
	withheld := s.withholdOutgrown(d, soon, names, func(e *rank.Entry) bool {
		return s.grows(&growth, e) || e.EffectivePriority() < by.priority
	})
	if withheld == 0 || len(d.Ranking.Candidates) > 0 {
		return HoldNone, ""
	}
	return HoldInsufficientReclaim, fmt.Sprintf(
		"what each of the %d candidates would return is used up within %v: %s use up %s within their requests (%s), and are evicted first when it runs out",
		withheld, relief, names, s.Pressure.Threshold.Signal, growth.say(s.Pressure.Threshold.Signal, by.grown))
}

// growing returns the pods that use the signal up and may be evicted, now or once it runs out. It knows
// none where the readings do not tell.
func (s *Situation) growing(d *Decision) growing {
	var by growing
	growth := s.growth()
	if !s.Policy.WithinRequests.untilExhaustion() {
		return by
	}
	for _, entries := range [][]rank.Entry{d.Ranking.Candidates, d.Ranking.Protected} {
		for i := range entries {
			e := &entries[i]
			r := s.Uses.reclaim(s.Pressure.Threshold.Signal, e.Pod.UID)
			if !s.grows(&growth, e) || !r.Known {
				continue
			}
			if priority := e.EffectivePriority(); len(by.names) == 0 || priority < by.priority {
				by.priority = priority
			}
			by.names = append(by.names, e.Pod.Key())
			by.grown += growth.ByUID[e.Pod.UID]
			by.frees += r.Amount
		}
	}
	return by
}

// grows reports whether a pod may be evicted, now or once the signal runs out, and is one of those
// that use it up.
func (s *Situation) grows(growth *Growth, e *rank.Entry) bool {
	return growth.by(e.Pod.UID) &&
		(e.Protection == rank.NotProtected || e.Protection == rank.ProtectedWithinRequests)
}
