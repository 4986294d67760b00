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
	// Exhausted is the time until nothing is left: Never when the signal is not clearly
	// being used up. It goes by a slower rate than After, see surely.
	Exhausted time.Duration
	// Least is that slower rate, in the signal's unit a second; 0 or less when the signal
	// is not clearly being used up.
	Least float64
	// Over is how long the readings reach back that it rests on. Recent is how long ago
	// the oldest of the last few was made, which alone could make Exhausted Never.
	Over, Recent time.Duration
}

// trusted is how many times as far as it looks back a forecast is trusted ahead, where
// something is done because of it: a burst of a second says nothing of the next minute.
const trusted = 5

// before reports whether the hard threshold will be met within so long, as far as the
// forecast can be trusted.
func (f *Forecast) before(left time.Duration) bool {
	return f.Known && f.After < left && f.After <= trusted*f.Over
}

// Exhaustion returns when nothing will be left, and false when that is not to be
// expected, or too far ahead to be trusted.
func (f *Forecast) Exhaustion() (after time.Duration, expected bool) {
	return f.Exhausted, f.Known && f.Exhausted <= trusted*f.Over
}

// Until returns when so much of the signal, in its unit, will have been used up, and false
// when that is not to be expected, or too far ahead to be trusted. Like Exhaustion it goes
// by the rate that is certain.
func (f *Forecast) Until(headroom int64) (after time.Duration, expected bool) {
	after = reached(float64(headroom), f.Least)
	return after, f.Known && after <= trusted*f.Over
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
	trendPairs   = trendMost * (trendMost - 1) / 2
	// trendRecent are so many of the last ones that noise alone makes one in a hundred
	// such rows fall.
	trendRecent = 6
)

// trend is a line through the last readings of one signal. Its slope is the median
// of the slopes between all pairs of them (Theil and Sen): three readings in ten may
// be anything, a spike of page faults or a second without load, and do not move it.
type trend struct {
	times     [trendMost]time.Time
	available [trendMost]float64
	count     int // how many there are, the oldest first
	rate      float64
	least     float64 // see surely
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
		var room [trendPairs]float64
		all := t.slopes(0, &room)
		t.rate, t.least = median(all), surely(all)
		t.least = min(t.least, surely(t.slopes(t.recent(), &room)))
	}
}

// stale reports whether the oldest reading, where old of them are left out already,
// is left out too for the one that comes.
func (t *trend) stale(old int, now time.Time) bool {
	age, left := now.Sub(t.times[old]), t.count-old
	return left == trendMost || age > trendOldest || age > trendAge && left >= trendFewest
}

func (t *trend) known() bool { return t.count >= trendFewest }

// recent returns which reading the last few begin with.
func (t *trend) recent() int { return max(0, t.count-trendRecent) }

// slopes returns how fast the signal was used up between each two of the readings from
// that one on, the slowest first. It allocates nothing.
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

// surely returns the rate that nine pairs of readings in ten reach: the lower end of a
// confidence interval of the slope (Sen), where the median is its middle. A step is no
// fall by it, wherever it lies among the readings, because at most six pairs in ten have
// it between them; nor is noise. The slower of that of all readings and that of the
// last few says of a fall that it has gone on for a while and goes on now.
func surely(sorted []float64) float64 { return sorted[len(sorted)/10] }

// until returns the forecast for a line.
func (t *trend) until(line int64, seen Observation, now time.Time) Forecast {
	if !t.known() {
		return Forecast{}
	}
	f := Forecast{
		Known: true, Rate: t.rate,
		After:  reached(float64(seen.Available-line), t.rate),
		Over:   t.times[t.count-1].Sub(t.times[0]),
		Recent: now.Sub(t.times[t.recent()]),
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

// reached returns how long it takes to use up so much at that rate; 0 when there is
// nothing to use up, Never when it is not being used up.
func reached(headroom, rate float64) time.Duration {
	if rate <= 0 || headroom/rate >= trendHorizon.Seconds() {
		return Never
	}
	return time.Duration(max(0, headroom) / rate * float64(time.Second))
}

// trendHorizon is how far a line through ten seconds is worth following.
const trendHorizon = time.Hour
