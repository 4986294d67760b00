package agent

import (
	"time"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/pkg/pressure"
)

// covered is by how much more is in flight than a hard pressure needs. A pod that keeps taking
// memory uses that up. A tenth of a second is soon enough when there is only a recovery to notice;
// it is 100 MB for a pod that takes a gigabyte a second. The zero value covers nothing.
type covered struct {
	signal pressure.Signal
	margin int64 // in the signal's unit
	holds  bool
}

// by notes a hold for what is in flight; the first of a tick counts, which is memory's where
// memory is short.
func (c *covered) by(p *pressure.Pressure, s *decide.Shortage) {
	if c.holds || !p.Threshold.Hard || p.Threshold.Signal.OnDisk() {
		return
	}
	needs := s.ToTarget
	if s.Missing > 0 {
		needs = s.ToLine // the target waits for a victim's end, the line does not
	}
	*c = covered{signal: p.Threshold.Signal, margin: max(0, s.InFlight-needs), holds: true}
}

// ends returns when to look again: before half of it is used up at the fastest rate seen of
// late, because the decision takes its time too.
func (c *covered) ends(pacer *pressure.Pacer) time.Duration {
	if !c.holds {
		return time.Duration(1<<63 - 1)
	}
	return pacer.Until(c.signal, c.margin/2)
}
