package pressure

import (
	"math"
	"slices"
	"time"
)

// Never is the forecast of a signal that is not being used up.
const Never = time.Duration(math.MaxInt64)

// Forecast says when a signal will be used up if its fall of the last seconds continues.
type Forecast struct {
	// Known says whether there are enough readings for a forecast; otherwise the other
	// fields are meaningless.
	Known bool
	// Rate is how fast the signal is certainly being used up, in its unit a second, see
	// slopes; 0 or less when it is not clearly being used up.
	Rate float64
	// After is the time until the hard threshold is met: 0 when it is met already, Never
	// when the signal is not clearly being used up.
	After time.Duration
	// Exhausted is the time until nothing is left: Never as for After.
	Exhausted time.Duration
	// Over is the time span of the readings that the forecast uses.
	Over time.Duration
	// Fallen is by how much the signal fell within it, in its unit, and at most what it falls in that time at the
	// rate that three in four pairs of readings reach: a burst in less than half of it does not go on. It is 0
	// where the signal did not fall.
	Fallen float64
}

// trusted is how many times the span of its readings a forecast may look ahead to trigger an
// action. A burst of one second does not predict the next minute.
const trusted = 5

// Exhaustion returns when nothing will be left. It returns false when that is not expected,
// or too far ahead to be trusted.
func (f *Forecast) Exhaustion() (after time.Duration, expected bool) {
	return f.Exhausted, f.Known && f.Exhausted <= trusted*f.Over
}

// The readings that a trend uses: their minimum and maximum number, and their distance.
// Readings older than trendAge are dropped, except the fewest that are needed; none is older
// than trendOldest. The fewest are also judged alone: noise makes one in a hundred such series
// fall. Nothing is forecast further ahead than trendHorizon.
const (
	trendFewest  = 6
	trendMost    = 40
	trendSpacing = 250 * time.Millisecond
	trendAge     = 10 * time.Second
	trendOldest  = time.Minute
	trendHorizon = time.Hour
	trendPairs   = trendMost * (trendMost - 1) / 2
)

// trend follows the last readings of one signal.
type trend struct {
	times     [trendMost]time.Time
	available [trendMost]float64
	count     int // number of readings, the oldest first
	rate      float64
	steady    float64 // rate, see [trend.slopes]
}

// note adds a reading. It skips a reading that follows the previous one too closely: noise
// would make up most of the slope between them.
func (t *trend) note(now time.Time, available float64) {
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
	t.times[t.count], t.available[t.count] = now, available
	t.count++
	if t.count >= trendFewest {
		t.rate, t.steady = t.slopes(0)
		last, _ := t.slopes(t.count - trendFewest)
		t.rate = min(t.rate, last)
	}
}

// stale reports whether the oldest reading must be dropped when the next one is added, given
// that old readings are dropped already.
func (t *trend) stale(old int, now time.Time) bool {
	age, left := now.Sub(t.times[old]), t.count-old
	return left == trendMost || age > trendOldest || age > trendAge && left >= trendFewest
}

// slopes returns the rate that nine in ten pairs of readings reach, from the given reading on: the
// lower end of a confidence interval of the slope whose estimate is the median of all pairs (Theil and
// Sen), and that which three in four reach. A single step does not count as a fall by the first, wherever it lies
// among the readings, because at most six pairs in ten span it; nor does noise. The slower of the rates of all
// readings and of the last few shows that a fall has lasted for a while and continues. It allocates nothing.
func (t *trend) slopes(from int) (certain, steady float64) {
	var room [trendPairs]float64
	pairs := room[:0]
	for later := from + 1; later < t.count; later++ {
		for earlier := from; earlier < later; earlier++ {
			seconds := t.times[later].Sub(t.times[earlier]).Seconds()
			pairs = append(pairs, (t.available[earlier]-t.available[later])/seconds)
		}
	}
	slices.Sort(pairs)
	return pairs[len(pairs)/10], pairs[len(pairs)/4]
}

// until returns the forecast for a line.
func (t *trend) until(line int64, seen Observation) Forecast {
	if t.count < trendFewest {
		return Forecast{}
	}
	f := Forecast{
		Known: true, Rate: t.rate,
		After:     reached(float64(seen.Available-line), t.rate),
		Exhausted: reached(float64(seen.Available), t.rate),
		Over:      t.times[t.count-1].Sub(t.times[0]),
	}
	f.Fallen = max(0, min(t.available[0]-t.available[t.count-1], t.steady*f.Over.Seconds()))
	if seen.Available < line {
		f.After = 0
	}
	return f
}

// reached returns how long it takes to use up headroom at the rate: 0 when there is no
// headroom, Never when the signal is not being used up.
func reached(headroom, rate float64) time.Duration {
	if rate <= 0 || headroom/rate >= trendHorizon.Seconds() {
		return Never
	}
	return time.Duration(max(0, headroom) / rate * float64(time.Second))
}
