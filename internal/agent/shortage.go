package agent

import (
	"github.com/evictd/evictd/pkg/evict"
	"github.com/evictd/evictd/pkg/pressure"
)

// shortage are the figures of what a pressure is short of, in the signal's unit. None is
// negative.
type shortage struct {
	// toLine is missing to the threshold's line, toTarget to the line plus the minimum
	// reclaim, by the reading alone.
	toLine, toTarget int64
	// inFlight is what the victims that are relied on should still free.
	inFlight int64
	// missing is what is still missing to the target beside what is in flight, and
	// missingToLine what is still missing to the line.
	missing, missingToLine int64
}

// shortageOf returns the figures of a pressure, with so much in flight.
func shortageOf(p *pressure.Pressure, inFlight int64) shortage {
	s := shortage{
		toLine:   max(0, p.Line-p.Observed.Available),
		toTarget: max(0, p.Target-p.Observed.Available),
		inFlight: max(0, inFlight),
	}
	s.missing = max(0, p.Target-p.Observed.Available-s.inFlight)
	s.missingToLine = max(0, p.Line-p.Observed.Available-s.inFlight)
	return s
}

// shortage returns the figures of a pressure with what is relied on now.
func (a *Agent) shortage(p *pressure.Pressure) shortage {
	expected, _ := a.reliedOn(p)
	return shortageOf(p, expected)
}

// inMargin reports whether the line is reached with what is in flight, and the target is
// not.
func (s *shortage) inMargin() bool { return s.missingToLine == 0 && s.missing > 0 }

// toReach returns what the candidates should reach at least: the line; of a disk that has
// its line the target, because where the host filled it and gave a little back, the pods
// would go for the rest, one by one.
func (s *shortage) toReach(signal pressure.Signal) int64 {
	if s.inMargin() && signal.OnDisk() {
		return s.missing
	}
	return s.missingToLine
}

// required returns what all candidates together must be able to give back, so that one of
// them may go. Least is limits.minimumRelease.
//
//   - What is missing to the line, or [shortage.toReach] of a disk.
//   - Of a disk at least that share of the line itself, too. A disk is filled over hours, by
//     whatever: when its line is crossed almost nothing is missing, and the pods that happen
//     to be there would go one after the other, each for a moment of rest. What is less than
//     that did not fill the disk.
//   - Of anything else that has its line, that share of what is missing to the target.
func (s *shortage) required(p *pressure.Pressure, least pressure.Quantity) int64 {
	switch {
	case s.missing == 0:
		return 0
	case p.Threshold.Signal.OnDisk():
		return max(s.toReach(p.Threshold.Signal), least.Of(p.Line))
	case s.inMargin():
		return least.Of(s.missing)
	default:
		return s.missingToLine
	}
}

// required is [shortage.required] of a pressure with what is relied on now.
func (a *Agent) required(p *pressure.Pressure) int64 {
	s := a.shortage(p)
	return s.required(p, a.policy.MinimumRelease)
}

// awaited returns the victim of evictd's whose end a pressure waits for in the reclaim
// margin, the one that was accepted first; false where there is none. Inside the margin
// nothing is urgent: one victim at a time goes for it, as in the kubelet, and the next only
// after a reading that shows what the last one gave back. Of a disk no reading shows that
// at a victim's end, see settle.go.
func (a *Agent) awaited(p *pressure.Pressure, s *shortage) (evict.Booking, bool) {
	if !s.inMargin() || p.Threshold.Signal.OnDisk() {
		return evict.Booking{}, false
	}
	signal := p.Threshold.Signal.String()
	for _, b := range a.ledger.OnTheirWay() {
		own := b.Signal == signal || b.Signal != "" && b.Expected[signal] > 0
		if own && b.ReliedOn(p.SampleTime, patienceOf(p)) {
			return b, true
		}
	}
	return evict.Booking{}, false
}
