package agent

import (
	"time"

	"github.com/evictd/evictd/pkg/pressure"
)

// A process that knows nothing of the time before its start, because there is no state or it
// could not be used, starts carefully. Where the first reading of a signal meets one of its
// thresholds already, the process before may just have acted:
//
//   - one eviction is left for the first minute, or an agent that is killed again and again
//     would evict a minute's worth each time;
//   - for a disk nothing is evicted until the kubelet has removed the containers of a victim
//     that may have ended just before, unless the disk would be full before that. For memory
//     the pods that are terminating and the cgroups that are left tell what is in flight.

// start is what the first readings of a process met.
type start struct {
	careful bool // nothing is known of the time before
	// read are the signals that have had a reading, met when the first one met a threshold;
	// the zero time when it did not.
	read [pressure.SignalCount]bool
	met  [pressure.SignalCount]time.Time
	// counted says that the first minute's limit was lowered.
	counted bool
}

// noteStart notes which signals are short from the start.
func (a *Agent) noteStart(sample *pressure.Sample, verdict *pressure.Verdict) {
	s := &a.start
	if !s.careful || verdict.Stale {
		return
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
			s.counted = true
			a.memory.Changed(true)
			a.cooldown.LeaveOne(sample.Time)
		}
	}
}
