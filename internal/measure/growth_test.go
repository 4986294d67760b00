package measure

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/pkg/pressure"
)

// TestGrowthSinceAnEarlierReading: the node and its pods are compared with the latest reading that is
// at least three seconds old; what is not known at both times is left out.
func TestGrowthSinceAnEarlierReading(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	memory := pressure.MemoryAvailable
	reading := func(second, available, leak int64) (*decide.Uses, *pressure.Sample) {
		sample := &pressure.Sample{Time: start.Add(time.Duration(second) * time.Second)}
		sample.Observations[memory] = pressure.Observation{State: pressure.Known, Available: available, Capacity: 1000}
		return &decide.Uses{ByUID: map[string]decide.Use{
			"leak": {Expected: pressure.Amounts{}.With(memory, leak)}, "unknown": {},
		}}, sample
	}
	type read struct{ second, available, leak int64 }
	for name, test := range map[string]struct {
		earlier []read
		now     read
		want    decide.Growth
	}{
		"nothing was read before":   {nil, read{10, 500, 100}, decide.Growth{}},
		"too short a while ago":     {[]read{{8, 600, 10}}, read{10, 500, 100}, decide.Growth{}},
		"a while ago":               {[]read{{7, 600, 10}}, read{10, 500, 100}, decide.Growth{Over: 3 * time.Second, Taken: 100, Grown: 90, ByUID: map[string]int64{"leak": 90}}},
		"two, the later one is old": {[]read{{1, 900, 1}, {7, 600, 10}}, read{10, 500, 100}, decide.Growth{Over: 3 * time.Second, Taken: 100, Grown: 90, ByUID: map[string]int64{"leak": 90}}},
		"two, the later one is not": {[]read{{5, 900, 1}, {8, 600, 10}}, read{10, 500, 100}, decide.Growth{Over: 5 * time.Second, Taken: 400, Grown: 99, ByUID: map[string]int64{"leak": 99}}},
		"every second": {
			[]read{{1, 950, 1}, {2, 900, 2}, {3, 850, 3}, {4, 800, 4}, {5, 750, 5}, {6, 700, 6}},
			read{7, 650, 7},
			decide.Growth{Over: 3 * time.Second, Taken: 150, Grown: 3, ByUID: map[string]int64{"leak": 3}},
		},
		"it recovers": {[]read{{1, 500, 100}}, read{10, 600, 50}, decide.Growth{Over: 9 * time.Second, Taken: -100, ByUID: map[string]int64{"leak": -50}}},
	} {
		var g growth
		for _, r := range test.earlier {
			g.note(reading(r.second, r.available, r.leak))
		}
		uses, sample := reading(test.now.second, test.now.available, test.now.leak)
		g.note(uses, sample)
		got := g.since(uses, &pressure.Pressure{
			Threshold: pressure.Threshold{Signal: memory}, Observed: sample.Of(memory), SampleTime: sample.Time,
		})
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestSteadyGrowth: only pods that grew in each of the last three intervals count, by their slowest.
func TestSteadyGrowth(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	memory := pressure.MemoryAvailable
	for name, test := range map[string]struct {
		every time.Duration
		leak  []int64
		want  float64
	}{
		"it leaks":                 {3 * time.Second, []int64{0, 60, 120, 180}, 20},
		"it leaks slower once":     {3 * time.Second, []int64{0, 60, 90, 150}, 10},
		"of more readings":         {3 * time.Second, []int64{0, 0, 60, 120, 180}, 20},
		"it starts":                {3 * time.Second, []int64{0, 500, 1000, 1000}, 0},
		"it shrank":                {3 * time.Second, []int64{0, 60, 30, 150}, 0},
		"too few readings":         {3 * time.Second, []int64{0, 60, 120}, 0},
		"it was not read once":     {3 * time.Second, []int64{0, -1, 120, 180}, 0},
		"the readings are too old": {16 * time.Second, []int64{0, 320, 640, 960}, 0},
	} {
		var g growth
		var uses *decide.Uses
		var sample *pressure.Sample
		for i, held := range test.leak {
			use := decide.Use{Expected: pressure.Amounts{}.With(memory, held)}
			if held < 0 {
				use = decide.Use{}
			}
			uses = &decide.Uses{ByUID: map[string]decide.Use{"leak": use, "still": {Expected: pressure.Amounts{}.With(memory, 50)}}}
			sample = &pressure.Sample{Time: start.Add(time.Duration(i) * test.every)}
			sample.Observations[memory] = pressure.Observation{State: pressure.Known, Available: 1000 - held, Capacity: 2000}
			g.note(uses, sample)
		}
		got := g.since(uses, &pressure.Pressure{
			Threshold: pressure.Threshold{Signal: memory}, Observed: sample.Of(memory), SampleTime: sample.Time,
		})
		over := 9 * time.Second
		if test.every != 3*time.Second || len(test.leak) < 4 {
			over = 0
		}
		if got.Steady != test.want || got.SteadyOver != over {
			t.Errorf("%s: %v a second over %v, want %v over %v", name, got.Steady, got.SteadyOver, test.want, over)
		}
	}
}

// TestWarmUpIsMoreFrequentNearAThreshold: a calm node's pods are read every 30 seconds, and every three
// near a threshold.
func TestWarmUpIsMoreFrequentNearAThreshold(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	m := New(Options{})
	m.warmed = start
	for _, test := range []struct {
		after time.Duration
		near  bool
		want  bool
	}{
		{2 * time.Second, true, false},
		{3 * time.Second, true, true},
		{3 * time.Second, false, false},
		{29 * time.Second, false, false},
		{30 * time.Second, false, true},
	} {
		if got := m.WarmUpDue(start.Add(test.after), test.near); got != test.want {
			t.Errorf("after %v, near %v: %v", test.after, test.near, got)
		}
	}
}
