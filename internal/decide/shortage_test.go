package decide

import (
	"slices"
	"testing"
	"time"

	"github.com/evictd/evictd/pkg/pressure"
)

func TestShortage(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		available, inFlight int64
		rate                float64 // used up in a second, for certain
		want                shortage
	}{
		{40, 0, 0, shortage{ToLine: 60, Missing: 80, Needed: 80, Reaches: 60}},
		{40, 25, 0, shortage{ToLine: 60, InFlight: 25, Missing: 55, Needed: 55, Taken: -25, Reaches: 35}},
		{40, 25, 1, shortage{ToLine: 60, InFlight: 25, Missing: 55, Needed: 85, Lately: 10, Taken: -23, Reaches: 35}},
		{40, 25, 5, shortage{ToLine: 60, InFlight: 25, Missing: 55, Needed: 205, Lately: 54, Taken: -12, Reaches: 35}},
		{40, 25, -1, shortage{ToLine: 60, InFlight: 25, Missing: 55, Needed: 55, Taken: -25, Reaches: 35}},
		{99, 0, 0, shortage{ToLine: 1, Missing: 21, Needed: 21, Reaches: 1}},
		{40, 60, 0, shortage{ToLine: 60, InFlight: 60, Missing: 20, Needed: 20, Taken: -60}},
		{100, 0, 0, shortage{Missing: 20, Needed: 20}},
		{115, 5, 0, shortage{InFlight: 5, Taken: -5}},
		{500, 500, 0, shortage{InFlight: 500, Taken: -500}},
		{-50, 10, 0, shortage{ToLine: 150, InFlight: 10, Missing: 160, Needed: 160, Taken: -10, Reaches: 140}},
		{40, -3, 0, shortage{ToLine: 60, Missing: 80, Needed: 80, Reaches: 60}},
	} {
		p := pressure.Pressure{Line: 100, Target: 120, Observed: pressure.Observation{Available: test.available}, Forecast: forecastOf(test.rate)}
		test.want.Required = test.want.Reaches
		if got := shortageOf(&p, test.inFlight); got != test.want {
			t.Errorf("%d available, %d in flight: %+v, want %+v", test.available, test.inFlight, got, test.want)
		}
		p.Threshold.Signal, test.want.Taken, test.want.Required = pressure.NodeFSAvailable, max(1, test.want.Lately/part), test.want.Needed
		if got := shortageOf(&p, test.inFlight); got != test.want {
			t.Errorf("a disk, %d available, %d in flight: %+v, want %+v", test.available, test.inFlight, got, test.want)
		}
	}
}

// forecastOf returns the forecast of a signal that is used up at a certain rate, and lasts. It has fallen by
// more, as the certain rate is the lower end of what is likely.
func forecastOf(rate float64) pressure.Forecast {
	return pressure.Forecast{Known: true, Rate: rate, Over: 10 * time.Second, Fallen: max(0, 12*rate), Exhausted: pressure.Never}
}

// What is used up counts as far as it is known, and of a disk that is full before a victim could end what is
// used up in the seconds that the forecast is made from.
func TestUsedUp(t *testing.T) {
	t.Parallel()
	soon := forecastOf(2)
	soon.Exhausted = 20 * time.Second
	for name, test := range map[string]struct {
		signal   pressure.Signal
		forecast pressure.Forecast
		want     int64
	}{
		"memory":                     {pressure.MemoryAvailable, forecastOf(2), 60},
		"memory, exhausted in time":  {pressure.MemoryAvailable, soon, 60},
		"memory, noise hides a fall": {pressure.MemoryAvailable, pressure.Forecast{Known: true, Fallen: 100}, 30},
		"not known":                  {pressure.MemoryAvailable, pressure.Forecast{Rate: 2}, 0},
		"a disk":                     {pressure.NodeFSAvailable, forecastOf(2), 60},
		"a disk, full in time":       {pressure.NodeFSAvailable, soon, 20},
		"tasks":                      {pressure.PIDAvailable, forecastOf(0.5), 15},
	} {
		p := pressure.Pressure{
			Threshold: pressure.Threshold{Signal: test.signal}, Observed: pressure.Observation{Available: 40}, Line: 100, Target: 100, Forecast: test.forecast,
		}
		if got := shortageOf(&p, 0).Needed - 60; got != test.want {
			t.Errorf("%s: %d are used up, want %d", name, got, test.want)
		}
	}
}

// The one formula: 50 are missing to the line and 60 to the target, 40 are used up soon, and most of what was lately is 55.
func TestCovered(t *testing.T) {
	t.Parallel()
	const memory, disk, stall = pressure.MemoryAvailable, pressure.NodeFSAvailable, pressure.MemoryStall
	of := func(amounts ...int64) []int64 { return amounts }
	const unknown = -1
	for _, test := range []struct {
		name         string
		signal       pressure.Signal
		over, within []int64
		took         int64
		anyHelps     bool
		want         string
	}{
		{"they cover it", memory, of(100), nil, 0, false, "those over their requests"},
		{"they cover it together", memory, of(30, 30, 40), nil, 0, false, "those over their requests"},
		{"they reach the line, and hold what was used up", memory, of(55), nil, 10, false, "all"},
		{"they reach the line, and do not hold what was used up", memory, of(54), nil, 40, false, "none"},
		{"they hold what was used up, and took nothing of it", memory, of(99), nil, 0, false, "none"},
		{"they do not reach the line", memory, of(30, 19), nil, 0, false, "none"},
		{"none", memory, nil, nil, 0, false, "none"},
		{"one is not known", memory, of(1, unknown), nil, 0, false, "those over their requests"},
		{"near exhaustion, they cover it", memory, of(100), of(500), 0, true, "those over their requests"},
		{"near exhaustion, they cover it together", memory, of(20, 20, 20, 20, 20), of(500), 0, true, "those over their requests"},
		{"near exhaustion, they do not cover it", memory, of(99), of(500), 0, true, "all"},
		{"near exhaustion, none exceeds", memory, nil, of(500), 0, true, "all"},
		{"near exhaustion, all together do not suffice", memory, of(1), of(1), 0, true, "all"},
		{"tasks near exhaustion", pressure.PIDAvailable, of(1), nil, 0, true, "all"},
		{"a disk, they cover it", disk, of(60, 40), nil, 0, false, "those over their requests"},
		{"a disk, the host fills it", disk, of(60, 39), nil, 0, false, "none"},
		{"a disk that they fill", disk, of(60), nil, 10, false, "all"},
		{"a disk near exhaustion", disk, of(60, 39), of(1), 0, false, "all"},
		{"a disk near exhaustion that they fill", disk, of(39), of(16), 10, false, "all"},
		{"a disk near exhaustion that the host fills", disk, of(60, 38), of(1), 9, false, "none"},
		{"a stall, of which no end's part is known", stall, of(1), nil, 0, false, "those over their requests"},
	} {
		short := shortage{Missing: 60, Needed: 100, Reaches: 55, Taken: 10}
		covered, byExceeding := short.covered(test.signal, ends(test.signal, slices.Concat(test.over, test.within)), len(test.over), test.took, test.anyHelps)
		if got := map[[2]bool]string{{false, false}: "none", {true, true}: "those over their requests", {true, false}: "all"}[[2]bool{covered, byExceeding}]; got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}

// ends are what the ends of pods should free of a signal; a negative amount is not known.
func ends(signal pressure.Signal, amounts []int64) (all []pressure.Amounts) {
	for _, amount := range amounts {
		expected := pressure.Amounts{}
		if amount >= 0 {
			expected = expected.With(signal, amount)
		}
		all = append(all, expected)
	}
	return all
}
