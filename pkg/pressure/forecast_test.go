package pressure

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// follow judges samples at that interval while available follows the function, and returns
// the last verdict.
func follow(j *Judge, every, during time.Duration, available func(at time.Duration) int64) Verdict {
	var last Verdict
	for at := time.Duration(0); at <= during; at += every {
		last = j.Judge(memoryBytes(at, available(at)))
	}
	return last
}

func watching() *Judge {
	return NewJudge(JudgeOptions{Thresholds: []Threshold{hardMemory(gibibyte), softMemory(4*gibibyte, 30*time.Second)}})
}

func TestForecast(t *testing.T) {
	t.Parallel()
	const mebibyte = 1 << 20
	for _, test := range []struct {
		name      string
		every     time.Duration
		available func(at time.Duration) int64
		rate      float64 // MiB a second
		after     time.Duration
		within    float64 // of both
	}{
		{"steady", time.Second, func(time.Duration) int64 { return 8 * gibibyte }, 0, Never, 0.02},
		{"recovering", time.Second, func(at time.Duration) int64 { return 8*gibibyte + int64(at.Seconds()*100*mebibyte) }, -100, Never, 0.02},
		{"falling, sampled each second", time.Second, func(at time.Duration) int64 { return 8*gibibyte - int64(at.Seconds()*100*mebibyte) }, 100, 61680 * time.Millisecond, 0.02},
		{"falling, sampled each 10 ms", 10 * time.Millisecond, func(at time.Duration) int64 { return 8*gibibyte - int64(at.Seconds()*100*mebibyte) }, 100, 61680 * time.Millisecond, 0.02},
		{"falling in noise, of which the slower rates count", 100 * time.Millisecond, func(at time.Duration) int64 {
			return 8*gibibyte - int64(at.Seconds()*100*mebibyte) + int64(math.Sin(at.Seconds()*1e4)*mebibyte)
		}, 96, 64250 * time.Millisecond, 0.05},
		{"one reading in four is nonsense: nothing is certain", 100 * time.Millisecond, func(at time.Duration) int64 {
			available := 8*gibibyte - int64(at.Seconds()*100*mebibyte)
			if at/(100*time.Millisecond)%4 == 3 {
				available -= 2 * gibibyte
			}
			return available
		}, math.Inf(-1), Never, 0},
		{"too slow for a forecast", time.Second, func(at time.Duration) int64 { return 8*gibibyte - int64(at.Seconds()*mebibyte) }, 1, Never, 0.02},
		{"met already", 100 * time.Millisecond, func(time.Duration) int64 { return gibibyte / 2 }, 0, 0, 0.02},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			verdict := follow(watching(), test.every, 10*time.Second, test.available)
			f := verdict.Forecasts[MemoryAvailable]
			if off := math.Abs(f.Rate/mebibyte - test.rate); !f.Known || off > 100*test.within && (f.Rate > 0 || !math.IsInf(test.rate, -1)) {
				t.Errorf("known %v, %.1f MiB a second, want %.1f", f.Known, f.Rate/mebibyte, test.rate)
			}
			if off := math.Abs(f.After.Seconds() - test.after.Seconds()); off > test.after.Seconds()*test.within {
				t.Errorf("met after %v, want %v", f.After, test.after)
			}
		})
	}
}

// What a victim has returned ends the fall before it: its slope is no forecast afterwards. One reading that
// is too high ends nothing for longer than it counts among the last.
func TestForecastForgetsAFallThatHasEnded(t *testing.T) {
	t.Parallel()
	const mebibyte, ended = 1 << 20, 10 * time.Second
	falling := func(at time.Duration) int64 { return 6*gibibyte - int64(at.Seconds()*100*mebibyte) }
	for _, test := range []struct {
		name      string
		available func(at time.Duration) int64
		falls     bool
	}{
		{"it goes on", falling, true},
		{"twice as much is returned", func(at time.Duration) int64 { return falling(min(at, ended)) + returned(at, ended, 2000*mebibyte) }, false},
		{"as much is returned", func(at time.Duration) int64 { return falling(min(at, ended)) + returned(at, ended, 1000*mebibyte) }, false},
		{"one reading is too high", func(at time.Duration) int64 {
			return falling(at) + returned(at, ended, 2000*mebibyte) - returned(at, ended+trendSpacing, 2000*mebibyte)
		}, true},
	} {
		f := follow(watching(), trendSpacing, ended+2*time.Second, test.available).Forecasts[MemoryAvailable]
		if falls := f.Known && f.Rate > 0; falls != test.falls {
			t.Errorf("%s: known %v, %.1f MiB a second", test.name, f.Known, f.Rate/mebibyte)
		}
	}
}

// returned is what is returned at once at a time.
func returned(at, when time.Duration, amount int64) int64 {
	if at < when {
		return 0
	}
	return amount
}

func TestForecastIsUnknownWithoutReadings(t *testing.T) {
	t.Parallel()
	falling := func(at time.Duration) int64 { return 8*gibibyte - int64(at.Seconds()*gibibyte) }
	if f := follow(watching(), trendSpacing, 4*trendSpacing, falling).Forecasts[MemoryAvailable]; f != (Forecast{}) {
		t.Errorf("a forecast from five readings: %+v", f)
	}
	if f := follow(watching(), trendSpacing, 5*trendSpacing, falling).Forecasts[MemoryAvailable]; !f.Known {
		t.Error("no forecast from six readings")
	}
	slow := func(at time.Duration) int64 { return 8*gibibyte - int64(at.Seconds()*10*(1<<20)) }
	if f := follow(watching(), 10*time.Second, 2*time.Minute, slow).Forecasts[MemoryAvailable]; !f.Known || f.Over > time.Minute {
		t.Errorf("the forecast of a node that is sampled every 10 s: %+v", f)
	}
	j := watching()
	follow(j, 100*time.Millisecond, 2*time.Second, falling)
	if f := j.Judge(memoryUnknownAt(2100 * time.Millisecond)).Forecasts[MemoryAvailable]; f != (Forecast{}) {
		t.Errorf("a forecast of what is not known: %+v", f)
	}
	if f := j.Judge(memoryBytes(5*time.Minute, 7*gibibyte)).Forecasts[MemoryAvailable]; f != (Forecast{}) {
		t.Errorf("a forecast from readings a minute old: %+v", f)
	}
	soft := NewJudge(JudgeOptions{Thresholds: []Threshold{softMemory(4*gibibyte, time.Second)}})
	if f := follow(soft, 100*time.Millisecond, time.Second, falling).Forecasts[MemoryAvailable]; f != (Forecast{}) {
		t.Errorf("a forecast without a hard threshold: %+v", f)
	}
}

func BenchmarkForecast(b *testing.B) {
	judge := watching()
	follow(judge, 100*time.Millisecond, 10*time.Second, func(time.Duration) int64 { return 8 * gibibyte })
	sample := memoryBytes(time.Minute, 8*gibibyte)
	b.ReportAllocs()
	for b.Loop() {
		sample.Time = sample.Time.Add(trendSpacing)
		judge.Judge(sample)
	}
}

// falling returns a function that falls by rate MiB a second between two moments.
func falling(from, until time.Duration, first, rate int64) func(time.Duration) int64 {
	const mebibyte = 1 << 20
	return func(at time.Duration) int64 {
		return first - int64((min(max(at, from), until)-from).Seconds()*float64(rate*mebibyte))
	}
}

func TestExhaustion(t *testing.T) {
	t.Parallel()
	const mebibyte = 1 << 20
	end := 10 * time.Second
	for _, test := range []struct {
		name      string
		available func(at time.Duration) int64
		after     time.Duration
		expected  bool
	}{
		{"falling", falling(0, end, 8*gibibyte, 500), 6384 * time.Millisecond, true},
		{"falling in noise", func(at time.Duration) int64 {
			return falling(0, end, 8*gibibyte, 500)(at) + int64(math.Sin(at.Seconds()*1e4)*4*mebibyte)
		}, 6384 * time.Millisecond, true},
		{"so slow that the forecast cannot be trusted that far", falling(0, end, 8*gibibyte, 100), 71920 * time.Millisecond, false},
		{"steady", falling(0, 0, 8*gibibyte, 0), Never, false},
		{"recovering", falling(0, end, gibibyte, -100), Never, false},
		{"a burst of two seconds", falling(8*time.Second, end, 4*gibibyte, 1000), Never, false},
		{"a fall that is over", falling(0, 9*time.Second, 8*gibibyte, 800), Never, false},
		{"nothing left, and no fall", falling(0, 0, 0, 0), Never, false},
		{"nothing left, and a fall", falling(0, end, 10*mebibyte, 100), 0, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			f := follow(watching(), 50*time.Millisecond, end, test.available).Forecasts[MemoryAvailable]
			after, expected := f.Exhaustion()
			if off := after - test.after; expected != test.expected || off > time.Second || off < -time.Second {
				t.Errorf("exhausted after %v, expected %v; want %v, %v", after, expected, test.after, test.expected)
			}
		})
	}
}

func TestExhaustionIsUnknownWithoutReadings(t *testing.T) {
	t.Parallel()
	var f Forecast
	if after, expected := f.Exhaustion(); expected {
		t.Errorf("exhausted after %v by a forecast that is not known", after)
	}
	for readings, want := range map[int]bool{5: false, 6: true} {
		f = follow(watching(), trendSpacing, time.Duration(readings-1)*trendSpacing, falling(0, time.Minute, 2*gibibyte, 1000)).Forecasts[MemoryAvailable]
		if after, expected := f.Exhaustion(); expected != want {
			t.Errorf("exhausted after %v, %v, by %d readings", after, expected, readings)
		}
	}
}

// A single step is not a fall, wherever it lies among the readings and however noisy they
// are: it does not predict further use.
func TestAStepExhaustsNothing(t *testing.T) {
	t.Parallel()
	const mebibyte = 1 << 20
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		step := time.Duration(r.Int64N(int64(15 * time.Second)))
		before, after := 2*gibibyte, (100+r.Int64N(900))*mebibyte
		j := watching()
		for at := time.Duration(0); at < 30*time.Second; at += time.Duration(1 + r.Int64N(int64(200*time.Millisecond))) {
			available := int64(before)
			if at >= step {
				available = after
			}
			f := j.Judge(memoryBytes(at, available-r.Int64N(4*mebibyte))).Forecasts[MemoryAvailable]
			if in, expected := f.Exhaustion(); expected {
				t.Fatalf("seed %d: %v after a step, exhaustion is expected in %v", seed, at-step, in)
			}
		}
	}
}
