package decide

import (
	"fmt"
	"time"

	"github.com/evictd/evictd/internal/inflight"
	"github.com/evictd/evictd/internal/wording"
	"github.com/evictd/evictd/pkg/pressure"
)

// Of the victims that come too late for hard pressure, one is not relied on, and one more pod is
// evicted: docs/adr/0006-a-second-victim-beside-one-that-is-too-slow.md.

// late returns the victims that come too late for the forecast among those that are
// relied on otherwise, and when nothing will be left.
func (s *Situation) late(p *pressure.Pressure) (late []inflight.Booking, exhausted time.Duration) {
	exhausted, expected := p.Forecast.Exhaustion()
	if !p.Threshold.Hard || !expected || p.Threshold.Signal.OnDisk() {
		return nil, 0
	}
	signal, now := p.Threshold.Signal, p.SampleTime
	for i := range s.InFlight {
		b := &s.InFlight[i]
		if !weighs(b, p) {
			continue
		}
		if now.Sub(b.Accepted) < p.Forecast.Recent {
			return nil, 0
		}
		if b.ReliedOn(now, inflight.PatienceOf(p)) && b.Expected.At(signal) > 0 && !b.Unlisted && graceEnd(b).After(now.Add(exhausted)) {
			late = append(late, *b)
		}
	}
	return late, exhausted
}

// littleOf is the divisor of what is missing: a pod that evictd did not evict matters from that
// part on. So many such pods cover all that is missing, and hold the decision for that reason.
const littleOf = 10

// weighs reports whether a victim matters for the question which victims come too late. It does
// when evictd evicted it, or when it holds enough of what is missing to stop the fall or to count
// as one of the two.
func weighs(b *inflight.Booking, p *pressure.Pressure) bool {
	return b.Signal != "" || b.Expected.At(p.Threshold.Signal) >= ShortageOf(p, 0).ToTarget/littleOf
}

// graceEnd returns when the victim's grace period is over.
func graceEnd(b *inflight.Booking) time.Time { return b.Deadline.Add(-inflight.DeadlineMargin) }

// reliedOn returns what the victims that are relied on should still free, in the signal's unit,
// and whether there are any.
func (s *Situation) reliedOn(p *pressure.Pressure) (expected int64, relied bool) {
	signal := p.Threshold.Signal
	expected, relied = inflight.Relied(s.InFlight, signal, p.SampleTime, inflight.PatienceOf(p))
	if late, _ := s.late(p); len(late) == 1 {
		expected -= late[0].Expected.At(signal)
	}
	if s.FreeOnLists > 0 {
		expected, relied = expected+s.FreeOnLists, true
	}
	return expected, relied
}

// notReliedOn says which victim comes too late; "" when none does, or no other pod is evicted
// because of it.
func (s *Situation) notReliedOn() string {
	p := &s.Pressure
	late, exhausted := s.late(p)
	if len(late) != 1 {
		return ""
	}
	return fmt.Sprintf("%s is not relied on: its grace ends in %v, %v is exhausted in %v",
		late[0].Key(), wording.Rounded(graceEnd(&late[0]).Sub(p.SampleTime)), p.Threshold.Signal, wording.Rounded(exhausted))
}

// bothLate says of victims that are relied on although they come too late, why; "" when
// there are none.
func (s *Situation) bothLate(p *pressure.Pressure) string {
	late, exhausted := s.late(p)
	if len(late) < 2 {
		return ""
	}
	return fmt.Sprintf("; the grace of %d of them ends only after %v is exhausted, in %v, and no other pod is evicted for that before one of them has",
		len(late), p.Threshold.Signal, wording.Rounded(exhausted))
}
