package pressure

import (
	"math"
	"slices"
	"time"
)

// Never is the forecast of a signal that is not being used up.
const Never = time.Duration(math.MaxInt64)

// Forecast says when a signal will meet its hard threshold if its trend of the last seconds
// continues.
type Forecast struct {
	// Known says whether there are enough readings for a forecast; otherwise the other
	// fields are meaningless.
	Known bool
	// Rate is how fast the signal is being used up, in its unit a second; negative
	// while it recovers.
	Rate float64
	// After is the time until the hard threshold is met: 0 when it is met already, Never
	// when the signal is not being used up.
	After time.Duration
	// Exhausted is the time until nothing is left: Never when the signal is not clearly
	// being used up. It is computed from a slower rate than After, see surely.
	Exhausted time.Duration
	// Least is that slower rate, in the signal's unit a second; 0 or less when the signal
	// is not clearly being used up.
	Least float64
	// Over is the time span of the readings that the forecast uses.
	Over time.Duration
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
// than trendOldest.
const (
	trendFewest  = 5
	trendMost    = 40
	trendSpacing = 250 * time.Millisecond
	trendAge     = 10 * time.Second
	trendOldest  = time.Minute
	trendPairs   = trendMost * (trendMost - 1) / 2
	// trendRecent is how many of the last readings are also judged alone. Noise makes one in
	// a hundred such series fall.
	trendRecent = 6
)

// trend is a line through the last readings of one signal. Its slope is the median of the
// slopes between all pairs of readings (Theil and Sen). Up to three outliers in ten
// readings, such as a spike of page faults or a second without load, do not change it.
type trend struct {
	times     [trendMost]time.Time
	available [trendMost]float64
	count     int // number of readings, the oldest first
	rate      float64
	least     float64 // see surely
}

// note adds a reading. It skips a reading that follows the previous one too closely: noise
// would make up most of the slope between them.
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
	t.forgetRecovered()
	if t.known() {
		var room [trendPairs]float64
		all := t.slopes(0, &room)
		t.rate, t.least = median(all), surely(all)
		t.least = min(t.least, surely(t.slopes(t.recent(), &room)))
	}
}

// trendRecovered is how many readings must stand clear of all before them: one may be an outlier.
const trendRecovered = 2

// forgetRecovered drops the readings from before a recovery: when a victim has returned more than was used
// up, what was falling has ended, and its slope would be the median for seconds. The last readings stand
// clear of the others when they are above all of them, by half of what those differ.
func (t *trend) forgetRecovered() {
	before := t.count - trendRecovered
	if before < trendFewest {
		return
	}
	high := slices.Max(t.available[:before])
	above := high + (high-slices.Min(t.available[:before]))/2
	if slices.Min(t.available[before:t.count]) <= above {
		return
	}
	copy(t.times[:], t.times[before:t.count])
	copy(t.available[:], t.available[before:t.count])
	t.count = trendRecovered
}

// stale reports whether the oldest reading must be dropped when the next one is added, given
// that old readings are dropped already.
func (t *trend) stale(old int, now time.Time) bool {
	age, left := now.Sub(t.times[old]), t.count-old
	return left == trendMost || age > trendOldest || age > trendAge && left >= trendFewest
}

func (t *trend) known() bool { return t.count >= trendFewest }

// recent returns the index of the first of the last few readings.
func (t *trend) recent() int { return max(0, t.count-trendRecent) }

// slopes returns the rates at which the signal was used up between each two readings, from
// the given one on, slowest first. It allocates nothing.
func (t *trend) slopes(from int, room *[trendPairs]float64) []float64 {
	pairs := room[:0]
	for later := from + 1; later < t.count; later++ {
		for earlier := from; earlier < later; earlier++ {
			seconds := t.times[later].Sub(t.times[earlier]).Seconds()
			pairs = append(pairs, (t.available[earlier]-t.available[later])/seconds)
		}
	}
	slices.Sort(pairs)
	return pairs
}

func median(sorted []float64) float64 {
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

// surely returns the rate that nine in ten pairs of readings reach: the lower end of a
// confidence interval of the slope (Sen), of which the median is the middle. A single step
// does not count as a fall, wherever it lies among the readings, because at most six pairs
// in ten span it; nor does noise. The slower of the rates of all readings and of the last
// few shows that a fall has lasted for a while and continues.
func surely(sorted []float64) float64 { return sorted[len(sorted)/10] }

// until returns the forecast for a line.
func (t *trend) until(line int64, seen Observation) Forecast {
	if !t.known() {
		return Forecast{}
	}
	f := Forecast{
		Known: true, Rate: t.rate,
		After: reached(float64(seen.Available-line), t.rate),
		Over:  t.times[t.count-1].Sub(t.times[0]),
	}
	if t.count >= trendRecent {
		f.Least = t.least
	}
	f.Exhausted = reached(float64(seen.Available), f.Least)
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

// trendHorizon is how far ahead a line through ten seconds is useful.
const trendHorizon = time.Hour
