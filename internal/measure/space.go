package measure

import (
	"slices"
	"time"

	"github.com/evictd/evictd/pkg/pressure"
)

// spaceReadings is how many readings a stabilization window is judged by at most. Under pressure
// the loop makes ten a second with the default sampling.
const spaceReadings = 20

// spaceReading is one reading of a disk under pressure whose space may be reclaimed without an
// eviction.
type spaceReading struct {
	at        time.Time
	available int64
}

// ObserveSpace follows the disks that are under pressure, for a window.
func (m *Measurer) ObserveSpace(sample *pressure.Sample, verdict *pressure.Verdict, window time.Duration) {
	if window == 0 || verdict.Stale {
		return
	}
	met := [pressure.SignalCount]bool{}
	for _, lines := range [][]pressure.Pressure{verdict.Pressures, verdict.Waiting} {
		for i := range lines {
			met[lines[i].Threshold.Signal] = lines[i].Threshold.Signal.OnDisk()
		}
	}
	for signal := range m.space {
		switch seen := sample.Observations[signal]; {
		case met[signal]:
			m.keepSpace(pressure.Signal(signal), spaceReading{sample.Time, seen.Available}, window)
		case seen.State == pressure.Known:
			m.space[signal] = m.space[signal][:0]
		}
	}
}

// keep keeps the readings of one window.
func (m *Measurer) keepSpace(signal pressure.Signal, now spaceReading, window time.Duration) {
	kept := m.space[signal]
	if n := len(kept); n > 0 && now.at.Sub(kept[n-1].at) < window/spaceReadings {
		return
	}
	old := 0
	for old < len(kept) && now.at.Sub(kept[old].at) > window {
		old++
	}
	m.space[signal] = append(slices.Delete(kept, 0, old), now)
}

// Rise returns how far the signal is above its lowest value within the window, in its unit. Each
// point is the median of three readings in a row, so that a single outlier is neither the lowest
// nor the current one.
func (m *Measurer) Rise(signal pressure.Signal) int64 {
	kept := m.space[signal]
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
