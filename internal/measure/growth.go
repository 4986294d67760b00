package measure

import (
	"math"
	"slices"
	"time"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/pkg/pressure"
)

// growthLeast is how old an earlier reading must be for a comparison: within less time, noise is
// most of what changes.
const growthLeast = 3 * time.Second

// What tells that pods grow steadily: so many readings in a row, the first of them no older than that.
// A pod that starts takes its memory within one or two of the intervals between them.
const (
	steadyReadings = 4
	steadyOldest   = 45 * time.Second
)

// growth keeps the last readings of the node and its pods, at least [growthLeast] apart. While the pods are
// read all the time, the youngest that is old enough to be compared with the current one is at most twice
// as old. The zero value has none.
type growth struct {
	kept []moment // the oldest first
	// steady is how fast those pods grow together that grew in each interval between the kept readings, by
	// the slowest of their intervals, in the signal's unit a second. It has no figure where there are fewer
	// readings.
	steady map[pressure.Signal]float64
}

// moment is what was available and what the pods' ends would have freed at one time, by UID of the
// API server.
type moment struct {
	at        time.Time
	available pressure.Amounts
	pods      map[string]decide.Use
}

// note keeps a reading. Uses must not be written to afterwards.
func (g *growth) note(uses *decide.Uses, sample *pressure.Sample) {
	if sample == nil || len(g.kept) > 0 && sample.Time.Sub(g.kept[len(g.kept)-1].at) < growthLeast {
		return
	}
	now := moment{at: sample.Time, pods: uses.ByUID}
	for _, signal := range pressure.Signals() {
		if seen := sample.Of(signal); seen.State == pressure.Known {
			now.available = now.available.With(signal, seen.Available)
		}
	}
	if len(g.kept) == steadyReadings {
		g.kept = slices.Delete(g.kept, 0, 1)
	}
	g.kept = append(g.kept, now)
	g.steady = g.rates()
}

// rates returns the steady growth of each signal that pods give back. It is computed once for each
// reading: a tick under pressure comes many times as often.
func (g *growth) rates() map[pressure.Signal]float64 {
	if len(g.kept) < steadyReadings {
		return nil
	}
	rates := map[pressure.Signal]float64{}
	for _, signal := range pressure.Signals() {
		if signal.Reclaim() != pressure.ReclaimMeasured {
			continue
		}
		for uid := range g.kept[0].pods {
			rates[signal] += g.slowest(signal, uid)
		}
	}
	return rates
}

// earlier returns the latest reading that is old enough to be compared with one of a time; the zero moment
// where there is none.
func (g *growth) earlier(now time.Time) *moment {
	for i := range slices.Backward(g.kept) {
		if now.Sub(g.kept[i].at) >= growthLeast {
			return &g.kept[i]
		}
	}
	return &moment{}
}

// recent returns the steady growth of a signal and how long the readings took; zero where they are too
// few or too old.
func (g *growth) recent(signal pressure.Signal, now time.Time) (rate float64, over time.Duration) {
	if len(g.kept) < steadyReadings || now.Sub(g.kept[0].at) > steadyOldest {
		return 0, 0
	}
	return g.steady[signal], g.kept[steadyReadings-1].at.Sub(g.kept[0].at)
}

// slowest returns the least rate of one pod; 0 where it did not grow, or was not read, at one of the times.
func (g *growth) slowest(signal pressure.Signal, uid string) float64 {
	slowest := math.Inf(1)
	for i := range steadyReadings - 1 {
		from, to := &g.kept[i], &g.kept[i+1]
		before, knownBefore := from.pods[uid].Expected.Of(signal)
		after, knownAfter := to.pods[uid].Expected.Of(signal)
		if !knownBefore || !knownAfter {
			return 0
		}
		slowest = min(slowest, float64(after-before)/to.at.Sub(from.at).Seconds())
	}
	return max(0, slowest)
}

// since compares with the latest reading that is old enough.
func (g *growth) since(uses *decide.Uses, p *pressure.Pressure) decide.Growth {
	signal, earlier := p.Threshold.Signal, g.earlier(p.SampleTime)
	available, known := earlier.available.Of(signal)
	if !known || p.Observed.State != pressure.Known {
		return decide.Growth{}
	}
	changed := decide.Growth{
		Over: p.SampleTime.Sub(earlier.at), Taken: available - p.Observed.Available,
		ByUID: make(map[string]int64, len(uses.ByUID)),
	}
	changed.Steady, changed.SteadyOver = g.recent(signal, p.SampleTime)
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
