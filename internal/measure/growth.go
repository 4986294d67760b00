package measure

import (
	"time"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/pkg/pressure"
)

// growthLeast is how old an earlier reading must be for a comparison: within less time, noise is
// most of what changes.
const growthLeast = 3 * time.Second

// growth keeps two earlier readings of the node and its pods, so that one of them is old enough to
// be compared with the current one and, while the pods are read all the time, at most twice as old.
// The zero value has none.
type growth struct{ older, newer moment }

// moment is what was available and what the pods' ends would have freed at one time, by UID of the
// API server.
type moment struct {
	at        time.Time
	available pressure.Amounts
	pods      map[string]decide.Use
}

// note keeps a reading. Uses must not be written to afterwards.
func (g *growth) note(uses *decide.Uses, sample *pressure.Sample) {
	if sample == nil || !g.newer.at.IsZero() && sample.Time.Sub(g.newer.at) < growthLeast {
		return
	}
	now := moment{at: sample.Time, pods: uses.ByUID}
	for _, signal := range pressure.Signals() {
		if seen := sample.Of(signal); seen.State == pressure.Known {
			now.available = now.available.With(signal, seen.Available)
		}
	}
	g.older, g.newer = g.newer, now
}

// since compares with the latest reading that is old enough.
func (g *growth) since(uses *decide.Uses, p *pressure.Pressure) decide.Growth {
	earlier := &g.newer
	if p.SampleTime.Sub(earlier.at) < growthLeast {
		earlier = &g.older
	}
	signal := p.Threshold.Signal
	available, known := earlier.available.Of(signal)
	if !known || p.Observed.State != pressure.Known {
		return decide.Growth{}
	}
	changed := decide.Growth{
		Over: p.SampleTime.Sub(earlier.at), Taken: available - p.Observed.Available,
		ByUID: make(map[string]int64, len(uses.ByUID)),
	}
	for uid := range uses.ByUID {
		now, knownNow := uses.ByUID[uid].Expected.Of(signal)
		before, knownBefore := earlier.pods[uid].Expected.Of(signal)
		switch {
		case knownNow && knownBefore:
			changed.ByUID[uid] = now - before
			changed.Grown += max(0, now-before)
		case knownNow:
			changed.Unread += now
		}
	}
	return changed
}
