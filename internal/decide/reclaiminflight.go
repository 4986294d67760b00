package decide

import (
	"fmt"

	"github.com/evictd/evictd/internal/wording"
	"github.com/evictd/evictd/pkg/pressure"
)

// reclaimInFlight holds a decision while what is in flight should suffice.
func reclaimInFlight(s *Situation, _ *Decision) (Hold, string) { return s.reclaimInFlight(&s.Pressure) }

func (s *Situation) reclaimInFlight(p *pressure.Pressure) (Hold, string) {
	expected, relied := s.reliedOn(p)
	short := ShortageOf(p, expected)
	if relied && short.MissingToLine == 0 {
		return HoldReclaimInProgress, fmt.Sprintf("%d victims in flight should free the %s that are missing",
			len(s.InFlight), wording.Amount(p.Threshold.Signal, short.ToLine))
	}
	return HoldNone, ""
}

// reliedOn returns what the victims that are relied on should still free, in the signal's unit,
// and whether there are any.
func (s *Situation) reliedOn(p *pressure.Pressure) (expected int64, relied bool) {
	return Relied(s.InFlight, p.Threshold.Signal, p.SampleTime, PatienceOf(p))
}

// Covered says why what is in flight suffices; "" where it does not.
func (s *Situation) Covered() string {
	_, enough := s.reclaimInFlight(&s.Pressure)
	return enough
}

// LookAgain decides by a second reading, just before something irreversible. What the victims
// should still free was measured before: what they have freed since shows in the reading, so less
// is missing by now, or as much.
func (p *Plan) LookAgain(s *Situation, again *pressure.Sample) {
	p.Decision.Hold, p.Decision.Detail = s.lookAgain(again)
}

func (s *Situation) lookAgain(again *pressure.Sample) (Hold, string) {
	if fault := Incomplete(again, s.Policy.Thresholds, s.Pressure.Threshold.Signal); fault != "" {
		return HoldIncompleteReading, fault
	}
	if !s.Pressure.HoldsIn(again) {
		return HoldRecovered, ""
	}
	now := s.Pressure
	now.Observed = again.Of(now.Threshold.Signal)
	return s.reclaimInFlight(&now)
}

// Margin returns by how much more is in flight than a hard pressure of memory or tasks needs, in the
// signal's unit. A pod that continues to take memory uses that up: a tenth of a second is soon enough
// when there is only a recovery to notice, and is 100 MB for a pod that takes a gigabyte a second. It
// returns false where the decision does not wait for what is in flight.
func (s *Situation) Margin(d *Decision) (int64, bool) {
	threshold := &s.Pressure.Threshold
	if d.Hold != HoldReclaimInProgress || !threshold.Hard || threshold.Signal.OnDisk() {
		return 0, false
	}
	short := s.Shortage()
	return short.Margin(), true
}
