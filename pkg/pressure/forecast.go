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
	// Over is how long the readings reach back that it rests on.
	Over time.Duration
}

// trusted is how many times as far as it looks back a forecast is trusted ahead, where
// something is done because of it: a burst of a second says nothing of the next minute.
const trusted = 5

// before reports whether the hard threshold will be met within so long, as far as the
// forecast can be trusted.
func (f *Forecast) before(left time.Duration) bool {
	return f.Known && f.After < left && f.After <= trusted*f.Over
}

// What a trend is drawn through: so many readings at least, so many at most, so far
// apart. Those older than trendAge are left out, but for the fewest that it needs, and
// none is older than trendOldest.
const (
	trendFewest  = 5
	trendMost    = 40
	trendSpacing = 250 * time.Millisecond
	trendAge     = 10 * time.Second
	trendOldest  = time.Minute
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
	for old < t.count && t.stale(old, now) {
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

// stale reports whether the oldest reading, where old of them are left out already,
// is left out too for the one that comes.
func (t *trend) stale(old int, now time.Time) bool {
	age, left := now.Sub(t.times[old]), t.count-old
	return left == trendMost || age > trendOldest || age > trendAge && left >= trendFewest
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
	f := Forecast{Known: true, Rate: t.rate, After: Never, Over: t.times[t.count-1].Sub(t.times[0])}
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
