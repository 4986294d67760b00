package pressure

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// follow judges samples at that interval while available follows the function, and returns
// the last forecast.
func follow(j *Judge, every, during time.Duration, available func(at time.Duration) int64) Forecast {
	var last Verdict
	for at := time.Duration(0); at <= during; at += every {
		last = j.Judge(memoryBytes(at, available(at)))
	}
	return last.Forecasts[MemoryAvailable]
}

func watching() *Judge {
	return NewJudge([]Threshold{hardMemory(gib), softMemory(4*gib, 30*time.Second)}, 0)
}

// falling returns a function that falls from so many MiB, by rate MiB a second between two moments.
func falling(from, until time.Duration, first, rate int64) func(time.Duration) int64 {
	return func(at time.Duration) int64 {
		return first*mib - int64((min(max(at, from), until)-from).Seconds()*float64(rate*mib))
	}
}

// plus adds two functions up.
func plus(a, b func(time.Duration) int64) func(time.Duration) int64 {
	return func(at time.Duration) int64 { return a(at) + b(at) }
}

func noise(size int64) func(time.Duration) int64 {
	return func(at time.Duration) int64 { return int64(math.Sin(at.Seconds()*1e4) * float64(size*mib)) }
}

// returned is what is returned at once at a time, in MiB.
func returned(when time.Duration, amount int64) func(time.Duration) int64 {
	return func(at time.Duration) int64 {
		if at < when {
			return 0
		}
		return amount * mib
	}
}

func TestForecast(t *testing.T) {
	t.Parallel()
	const end, ms, never = 10 * time.Second, time.Millisecond, Never
	nonsense := func(at time.Duration) int64 { // one reading in four
		if at/(100*ms)%4 == 3 {
			return -2 * gib
		}
		return 0
	}
	for name, test := range map[string]struct {
		every     time.Duration
		available func(at time.Duration) int64
		rate      float64       // MiB a second
		after     time.Duration // the hard threshold is met, and then nothing is left
		exhausted time.Duration
		expected  bool // the second can be trusted
	}{
		"steady":                           {time.Second, falling(0, 0, 8192, 0), 0, never, never, false},
		"recovering":                       {time.Second, falling(0, end, 8192, -100), -100, never, never, false},
		"falling, sampled each second":     {time.Second, falling(0, end, 8192, 100), 100, 61680 * ms, 71920 * ms, false},
		"falling, sampled each 10 ms":      {10 * ms, falling(0, end, 8192, 100), 100, 61680 * ms, 71920 * ms, false},
		"in noise the slower ones count":   {100 * ms, plus(falling(0, end, 8192, 100), noise(1)), 96, 64250 * ms, 74917 * ms, false},
		"with nonsense nothing is certain": {100 * ms, plus(falling(0, end, 8192, 100), nonsense), math.Inf(-1), never, never, false},
		"too slow for a forecast":          {time.Second, falling(0, end, 8192, 1), 1, never, never, false},
		"met already":                      {100 * ms, falling(0, 0, 512, 0), 0, 0, never, false},
		"falling fast":                     {50 * ms, falling(0, end, 8192, 500), 500, 4336 * ms, 6384 * ms, true},
		"falling fast in noise":            {50 * ms, plus(falling(0, end, 8192, 500), noise(4)), 490, 4430 * ms, 6515 * ms, true},
		"a burst of two seconds":           {50 * ms, falling(8*time.Second, end, 4096, 1000), 0, never, never, false},
		"a fall that is over":              {50 * ms, falling(0, 9*time.Second, 8192, 800), 0, 0, never, false},
		"nothing left, and no fall":        {50 * ms, falling(0, 0, 0, 0), 0, 0, never, false},
		"nothing left, and a fall":         {50 * ms, falling(0, end, 10, 100), 100, 0, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := follow(watching(), test.every, end, test.available)
			if off := math.Abs(f.Rate/float64(mib) - test.rate); !f.Known || off > max(2, test.rate*0.02) && (f.Rate > 0 || !math.IsInf(test.rate, -1)) {
				t.Errorf("known %v, %.1f MiB a second, want %.1f", f.Known, f.Rate/float64(mib), test.rate)
			}
			exhausted, expected := f.Exhaustion()
			for what, times := range map[string][2]time.Duration{"met": {f.After, test.after}, "exhausted": {exhausted, test.exhausted}} {
				if got, want := times[0], times[1]; (got - want).Abs().Seconds() > want.Seconds()*0.02 {
					t.Errorf("%s after %v, want %v", what, got, want)
				}
			}
			if expected != test.expected {
				t.Errorf("exhaustion is expected: %t, in %v", expected, exhausted)
			}
		})
	}
}

// What a victim has returned ends the fall before it: its slope is no forecast afterwards. One reading that
// is too high ends nothing for longer than it counts among the last.
func TestForecastForgetsAFallThatHasEnded(t *testing.T) {
	t.Parallel()
	const ended = 10 * time.Second
	goesOn, ends := falling(0, time.Hour, 6144, 100), falling(0, ended, 6144, 100)
	for name, test := range map[string]struct {
		available func(at time.Duration) int64
		falls     bool
	}{
		"it goes on":                {goesOn, true},
		"twice as much is returned": {plus(ends, returned(ended, 2000)), false},
		"as much is returned":       {plus(ends, returned(ended, 1000)), false},
		"one reading is too high":   {plus(goesOn, plus(returned(ended, 2000), returned(ended+trendSpacing, -2000))), true},
	} {
		f := follow(watching(), trendSpacing, ended+2*time.Second, test.available)
		if falls := f.Known && f.Rate > 0; falls != test.falls {
			t.Errorf("%s: known %v, %.1f MiB a second", name, f.Known, f.Rate/float64(mib))
		}
	}
}

func TestForecastIsUnknownWithoutReadings(t *testing.T) {
	t.Parallel()
	fall := falling(0, time.Hour, 2048, 1000)
	for readings, want := range map[int]bool{5: false, 6: true} {
		f := follow(watching(), trendSpacing, time.Duration(readings-1)*trendSpacing, fall)
		if _, expected := f.Exhaustion(); f.Known != want || expected != want || !want && f != (Forecast{}) {
			t.Errorf("a forecast from %d readings: %+v", readings, f)
		}
	}
	if f := follow(watching(), 10*time.Second, 2*time.Minute, falling(0, time.Hour, 8192, 10)); !f.Known || f.Over > time.Minute {
		t.Errorf("the forecast of a node that is sampled every 10 s: %+v", f)
	}
	j := watching()
	follow(j, 100*time.Millisecond, 2*time.Second, fall)
	if f := j.Judge(memoryUnknownAt(2100 * time.Millisecond)).Forecasts[MemoryAvailable]; f != (Forecast{}) {
		t.Errorf("a forecast of what is not known: %+v", f)
	}
	if f := j.Judge(memoryBytes(5*time.Minute, 7*gib)).Forecasts[MemoryAvailable]; f != (Forecast{}) {
		t.Errorf("a forecast from readings a minute old: %+v", f)
	}
	soft := NewJudge([]Threshold{softMemory(4*gib, time.Second)}, 0)
	if f := follow(soft, 100*time.Millisecond, time.Second, fall); f != (Forecast{}) {
		t.Errorf("a forecast without a hard threshold: %+v", f)
	}
}

// A single step is not a fall, wherever it lies among the readings and however noisy they
// are: it does not predict further use.
func TestAStepExhaustsNothing(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		step := time.Duration(r.Int64N(int64(15 * time.Second)))
		available := plus(falling(0, 0, 2048, 0), returned(step, -1948+r.Int64N(900)))
		j := watching()
		for at := time.Duration(0); at < 30*time.Second; at += time.Duration(1 + r.Int64N(int64(200*time.Millisecond))) {
			f := j.Judge(memoryBytes(at, available(at)-r.Int64N(4*mib))).Forecasts[MemoryAvailable]
			if in, expected := f.Exhaustion(); expected {
				t.Fatalf("seed %d: %v after a step, exhaustion is expected in %v", seed, at-step, in)
			}
		}
	}
}
