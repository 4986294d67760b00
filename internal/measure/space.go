package measure

import (
	"slices"
	"time"

	"github.com/evictd/evictd/pkg/pressure"
)

// spaceReadings is how many readings a stabilization window is judged by at most. Under pressure
// the loop makes ten a second with the default sampling.
const spaceReadings = 20

// Space is what has been seen of disks under pressure whose space may come back by itself. The zero
// value has seen nothing.
type Space struct {
	readings [pressure.SignalCount][]spaceReading // the oldest first
}

type spaceReading struct {
	at        time.Time
	available int64
}

// Observe follows the disks that are under pressure, for a window.
func (s *Space) Observe(sample *pressure.Sample, verdict *pressure.Verdict, window time.Duration) {
	if window == 0 || verdict.Stale {
		return
	}
	met := [pressure.SignalCount]bool{}
	for _, lines := range [][]pressure.Pressure{verdict.Pressures, verdict.Waiting} {
		for i := range lines {
			met[lines[i].Threshold.Signal] = lines[i].Threshold.Signal.OnDisk()
		}
	}
	for signal := range s.readings {
		switch seen := sample.Observations[signal]; {
		case met[signal]:
			s.keep(pressure.Signal(signal), spaceReading{sample.Time, seen.Available}, window)
		case seen.State == pressure.Known:
			s.readings[signal] = s.readings[signal][:0]
		}
	}
}

// keep keeps the readings of one window.
func (s *Space) keep(signal pressure.Signal, now spaceReading, window time.Duration) {
	kept := s.readings[signal]
	if n := len(kept); n > 0 && now.at.Sub(kept[n-1].at) < window/spaceReadings {
		return
	}
	old := 0
	for old < len(kept) && now.at.Sub(kept[old].at) > window {
		old++
	}
	s.readings[signal] = append(slices.Delete(kept, 0, old), now)
}

// Rise returns how far the signal stands above its lowest within the window, in its unit. Each point
// is the median of three readings in a row: a single odd one is neither.
func (s *Space) Rise(signal pressure.Signal) int64 {
	kept := s.readings[signal]
	if len(kept) < 3 {
		return 0
	}
	last, lowest := int64(0), kept[0].available
	for i := range len(kept) - 2 {
		a, b, c := kept[i].available, kept[i+1].available, kept[i+2].available
		last = max(min(a, b), min(max(a, b), c))
		if i == 0 || last < lowest {
			lowest = last
		}
	}
	return last - lowest
}
