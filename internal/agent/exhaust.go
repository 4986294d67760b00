package agent

import (
	"fmt"
	"time"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/inflight"
	"github.com/evictd/evictd/internal/wording"
	"github.com/evictd/evictd/pkg/pressure"
)

// A victim is relied on to its deadline, which is longer than a node lives whose memory
// falls fast. So hard pressure does not rely on a victim that comes too late: its grace
// period ends only when nothing will be left of the signal, by the forecast. Another one
// goes beside it at once. Many pods end long before their grace period does, so that the
// second may save what the first did not; but nobody knows that, and innocents must not
// go one after the other for it:
//
//   - There is one such second, and no third. Of two victims that come too late both are
//     relied on again, until one of them has ended or its grace period is over: then
//     the kubelet kills what is left of it. What they all together cannot return is
//     missing as ever, and somebody goes for that.
//   - It is read from what is booked, not remembered, so that it is true after a restart
//     too.
//   - The forecast must rest on readings after the newest victim's acceptance, a good
//     second: most often the victim is the one that eats, and the fall ends with it.
//   - Pods that others end count only where they hold something of what is missing: on a
//     node of short jobs one ends every second. One that the API server does not list may
//     end at any moment, for all that is known, and does not come too late.
//   - A spike that is over is no fall, nor is a step (pressure.Forecast.Exhausted): then
//     the first is relied on as ever.
//   - The second must help without the first: limits.minimumReclaimShare asks of it what is
//     missing beside those that are relied on.
//   - Not for disks: a full one ends no node, and the space comes back when the kubelet has
//     removed the dead containers, of a second victim no sooner than of the first.

// late returns the victims that come too late for the forecast among those that are
// relied on otherwise, and when nothing will be left.
func (a *Agent) late(p *pressure.Pressure) (late []inflight.Booking, exhausted time.Duration) {
	exhausted, expected := p.Forecast.Exhaustion()
	if !p.Threshold.Hard || !expected || p.Threshold.Signal.OnDisk() {
		return nil, 0
	}
	signal, now := p.Threshold.Signal, p.SampleTime
	for _, b := range a.victims.All() {
		if !weighs(&b, p) {
			continue
		}
		if now.Sub(b.Accepted) < p.Forecast.Recent {
			return nil, 0
		}
		if b.ReliedOn(now, inflight.PatienceOf(p)) && b.Expected.At(signal) > 0 && !b.Unlisted && graceEnd(&b).After(now.Add(exhausted)) {
			late = append(late, b)
		}
	}
	return late, exhausted
}

// littleOf is the part of what is missing from which on a pod weighs that somebody else
// ends. So many of them cover all that is missing, and hold everything back by that.
const littleOf = 10

// weighs reports whether a victim matters for the question who comes too late: one of
// evictd's own, or one that holds enough of what is missing to turn the fall or to count as
// one of the two.
func weighs(b *inflight.Booking, p *pressure.Pressure) bool {
	return b.Signal != "" || b.Expected.At(p.Threshold.Signal) >= decide.ShortageOf(p, 0).ToTarget/littleOf
}

// graceEnd returns when the victim's grace period is over.
func graceEnd(b *inflight.Booking) time.Time { return b.Deadline.Add(-inflight.DeadlineMargin) }

// reliedOn returns what the victims that are relied on should still free, and whether there
// are any.
func (a *Agent) reliedOn(p *pressure.Pressure) (expected int64, relied bool) {
	signal := p.Threshold.Signal
	expected, relied = a.victims.Relied(signal, p.SampleTime, inflight.PatienceOf(p))
	if late, _ := a.late(p); len(late) == 1 {
		expected -= late[0].Expected.At(signal)
	}
	if free := a.unshownOf(p); free > 0 {
		expected, relied = expected+free, true
	}
	return expected, relied
}

// notReliedOn says which victim comes too late; "" when none does, or nobody goes
// because of it.
func (a *Agent) notReliedOn(p *pressure.Pressure) string {
	late, exhausted := a.late(p)
	if len(late) != 1 {
		return ""
	}
	return fmt.Sprintf("%s is not relied on: its grace ends in %v, %v is exhausted in %v",
		late[0].Key(), wording.Rounded(graceEnd(&late[0]).Sub(p.SampleTime)), p.Threshold.Signal, wording.Rounded(exhausted))
}

// bothLate says of victims that are relied on although they come too late, why; "" when
// there are none.
func (a *Agent) bothLate(p *pressure.Pressure) string {
	late, exhausted := a.late(p)
	if len(late) < 2 {
		return ""
	}
	return fmt.Sprintf("; the grace of %d of them ends only after %v is exhausted, in %v, and nobody else goes for that before one of them has",
		len(late), p.Threshold.Signal, wording.Rounded(exhausted))
}
