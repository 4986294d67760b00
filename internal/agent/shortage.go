package agent

import (
	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/inflight"
	"github.com/evictd/evictd/pkg/pressure"
)

// shortage returns the figures of a pressure with what is relied on now.
func (a *Agent) shortage(p *pressure.Pressure) decide.Shortage {
	expected, _ := a.reliedOn(p)
	return decide.ShortageOf(p, expected)
}

// required is [decide.Shortage.Required] of a pressure with what is relied on now.
func (a *Agent) required(p *pressure.Pressure) int64 {
	s := a.shortage(p)
	return s.Required(p, a.policy.MinimumRelease)
}

// awaited returns the victim of evictd's whose end a pressure waits for in the reclaim
// margin, the one that was accepted first; false where there is none. Inside the margin
// nothing is urgent: one victim at a time goes for it, as in the kubelet, and the next only
// after a reading that shows what the last one gave back. Of a disk no reading shows that
// at a victim's end, see settle.go.
func (a *Agent) awaited(p *pressure.Pressure, s *decide.Shortage) (inflight.Booking, bool) {
	if !s.InMargin() || p.Threshold.Signal.OnDisk() {
		return inflight.Booking{}, false
	}
	signal := p.Threshold.Signal
	for _, b := range a.victims.All() {
		own := b.Signal == signal.String() || b.Signal != "" && b.Expected.At(signal) > 0
		if own && b.ReliedOn(p.SampleTime, inflight.PatienceOf(p)) {
			return b, true
		}
	}
	return inflight.Booking{}, false
}
