package pressure

import (
	"math"
	"slices"
	"time"
)

// Never is the forecast of a signal that is not being used up.
const Never = time.Duration(math.MaxInt64)

// Forecast says when a signal will meet its hard threshold if it goes on as it did
// over the last seconds.
type Forecast struct {
	// Known says whether there are enough readings to tell; the other fields mean
	// nothing otherwise.
	Known bool
	// Rate is how fast the signal is being used up, in its unit a second; negative
	// while it recovers.
	Rate float64
	// After is the time until the hard threshold is met: 0 when it is, Never when the
	// signal is not being used up.
	After time.Duration
}

// What a trend is drawn through: so many readings at least, so many at most, so far
// apart, none older than that. Close to a threshold they span a second and a half,
// far from it ten.
const (
	trendFewest  = 5
	trendMost    = 16
	trendSpacing = 100 * time.Millisecond
	trendAge     = 10 * time.Second
)

// trend is a line through the last readings of one signal. Its slope is the median
// of the slopes between all pairs of them (Theil and Sen): three readings in ten may
// be anything, a spike of page faults or a second without load, and do not move it.
type trend struct {
	times     [trendMost]time.Time
	available [trendMost]float64
	count     int // how many there are, the oldest first
	rate      float64
}

// note takes a reading. Readings that follow each other too closely are left out:
// the noise between them would be most of their slope.
func (t *trend) note(now time.Time, available int64) {
	if t.count > 0 && now.Sub(t.times[t.count-1]) < trendSpacing {
		return
	}
	old := 0
	for old < t.count && (now.Sub(t.times[old]) > trendAge || t.count-old == trendMost) {
		old++
	}
	copy(t.times[:], t.times[old:t.count])
	copy(t.available[:], t.available[old:t.count])
	t.count -= old
	t.times[t.count], t.available[t.count] = now, float64(available)
	t.count++
	if t.known() {
		t.rate = t.slope()
	}
}

func (t *trend) known() bool { return t.count >= trendFewest }

// slope returns how fast the signal is being used up. It allocates nothing.
func (t *trend) slope() float64 {
	var slopes [trendMost * (trendMost - 1) / 2]float64
	pairs := slopes[:0]
	for later := 1; later < t.count; later++ {
		for earlier := range later {
			seconds := t.times[later].Sub(t.times[earlier]).Seconds()
			pairs = append(pairs, (t.available[earlier]-t.available[later])/seconds)
		}
	}
	slices.Sort(pairs)
	middle := len(pairs) / 2
	if len(pairs)%2 == 1 {
		return pairs[middle]
	}
	return (pairs[middle-1] + pairs[middle]) / 2
}

// until returns the forecast for a line.
func (t *trend) until(line int64, seen Observation) Forecast {
	if !t.known() {
		return Forecast{}
	}
	f := Forecast{Known: true, Rate: t.rate, After: Never}
	headroom := float64(seen.Available - line)
	switch {
	case headroom < 0:
		f.After = 0
	case t.rate > 0 && headroom/t.rate < trendHorizon.Seconds():
		f.After = time.Duration(headroom / t.rate * float64(time.Second))
	}
	return f
}

// trendHorizon is how far a line through ten seconds is worth following.
const trendHorizon = time.Hour
