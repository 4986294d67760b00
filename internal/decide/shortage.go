package decide

import "github.com/evictd/evictd/pkg/pressure"

// Shortage are the figures of what a pressure is short of, in the signal's unit. None is
// negative.
type Shortage struct {
	// ToLine is missing to the threshold's line, ToTarget to the line plus the minimum
	// reclaim, by the reading alone.
	ToLine, ToTarget int64
	// InFlight is what the victims that are relied on should still free.
	InFlight int64
	// Missing is what is still missing to the target beside what is in flight, and
	// MissingToLine what is still missing to the line.
	Missing, MissingToLine int64
}

// ShortageOf returns the figures of a pressure, with so much in flight.
func ShortageOf(p *pressure.Pressure, inFlight int64) Shortage {
	s := Shortage{
		ToLine:   max(0, p.Line-p.Observed.Available),
		ToTarget: max(0, p.Target-p.Observed.Available),
		InFlight: max(0, inFlight),
	}
	s.Missing = max(0, p.Target-p.Observed.Available-s.InFlight)
	s.MissingToLine = max(0, p.Line-p.Observed.Available-s.InFlight)
	return s
}

// InMargin reports whether the line is reached with what is in flight, and the target is
// not.
func (s *Shortage) InMargin() bool { return s.MissingToLine == 0 && s.Missing > 0 }

// ToReach returns what the candidates should reach at least: the threshold. For a disk that is back
// at its threshold ([Shortage.InMargin]) it is the target: if the host filled the disk and freed a
// little, the pods would be evicted for the rest, one by one.
func (s *Shortage) ToReach(signal pressure.Signal) int64 {
	if s.InMargin() && signal.OnDisk() {
		return s.Missing
	}
	return s.MissingToLine
}

// Required returns what all candidates together must be able to free, so that one of them may be
// evicted. Least is limits.minimumReclaimShare.
//
//   - What is missing to the threshold, or [Shortage.ToReach] of a disk.
//   - For a disk at least that share of the threshold itself, too. A disk fills over hours,
//     and not only because of pods: when its threshold is met almost nothing is missing, and
//     the pods that happen to be there would be evicted one after the other, each for a short
//     relief. Candidates that hold less than that did not fill the disk.
//   - For any other signal that is back at its threshold, that share of what is missing to
//     the target.
func (s *Shortage) Required(p *pressure.Pressure, least pressure.Quantity) int64 {
	switch {
	case s.Missing == 0:
		return 0
	case p.Threshold.Signal.OnDisk():
		return max(s.ToReach(p.Threshold.Signal), least.Of(p.Line))
	case s.InMargin():
		return least.Of(s.Missing)
	default:
		return s.MissingToLine
	}
}

// Margin returns by how much more is in flight than is needed, in the signal's unit: the target, or
// the threshold alone where the target waits for a victim's end.
func (s *Shortage) Margin() int64 {
	needs := s.ToTarget
	if s.Missing > 0 {
		needs = s.ToLine
	}
	return max(0, s.InFlight-needs)
}
