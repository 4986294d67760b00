package cooldown

import (
	"fmt"
	"time"

	"github.com/evictd/evictd/pkg/pressure"
)

// start is what a process waits for that knows nothing of the time before its start: where the
// first reading of a signal meets a threshold already, the process before may just have acted.
// See docs/adr/0014.
type start struct {
	// spaceReturns is how long the space of a pod that has ended may take to come back; 0 where
	// the time before is known.
	spaceReturns time.Duration
	// read are the signals that have had a reading, met when the first one met a threshold;
	// the zero time when it did not.
	read [pressure.SignalCount]bool
	met  [pressure.SignalCount]time.Time
	// counted says that the first minute's limit was lowered.
	counted bool
}

// StartCarefully says that nothing is known of the time before. SpaceReturns is how long the space
// of a pod that has ended may take to come back to a disk. It is called before the first sample.
func (t *Tracker) StartCarefully(spaceReturns time.Duration) {
	t.start = start{spaceReturns: spaceReturns}
}

// ObserveStart notes which signals are short from the start, by each sample and its verdict. The
// first leaves one eviction of the coming minute's limit: an agent that is restarted again and
// again must not evict a minute's worth each time. It reports whether it did.
func (t *Tracker) ObserveStart(sample *pressure.Sample, verdict *pressure.Verdict) (counted bool) {
	s := &t.start
	if s.spaceReturns == 0 || verdict.Stale {
		return false
	}
	for _, lines := range [][]pressure.Pressure{verdict.Pressures, verdict.Waiting} {
		for i := range lines {
			if signal := lines[i].Threshold.Signal; !s.read[signal] {
				s.met[signal] = sample.Time
			}
		}
	}
	for signal := range s.read {
		s.read[signal] = s.read[signal] || sample.Observations[signal].State == pressure.Known
		if !s.met[signal].IsZero() && !s.counted {
			s.counted, counted = true, true
			t.limiter.leaveOne(sample.Time)
		}
	}
	return counted
}

// Start returns why no pod is evicted for a disk that was short from the start: the kubelet may
// still remove the containers of a victim that ended just before. For memory, the terminating pods
// and the remaining cgroups show what is in flight.
func (t *Tracker) Start(signal pressure.Signal, now time.Time) (Reason, bool) {
	met := t.start.met[signal]
	until := met.Add(t.start.spaceReturns)
	if met.IsZero() || !signal.OnDisk() || !now.Before(until) {
		return Reason{}, false
	}
	return Reason{Kind: CarefulStart, Until: until, Detail: fmt.Sprintf(
		"evictd does not know which pods ended before it started, and the space of one may come back: waiting %v at most",
		until.Sub(now).Round(100*time.Millisecond))}, true
}
