package pressure

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"
)

func (p phase) String() string { return [...]string{"calm", "waiting", "holding"}[p] }

// inputs are all readings that a sample can have for a soft threshold of 200, with a grace
// period of 10 s and a minimum reclaim of 50, and for the hard one of 100 behind it. The
// time is since the previous sample.
func inputs() map[string]func(at time.Duration) (*Sample, time.Duration) {
	const step = time.Second
	known := func(available int64) func(time.Duration) (*Sample, time.Duration) {
		return func(at time.Duration) (*Sample, time.Duration) { return memoryAt(at+step, available), step }
	}
	return map[string]func(at time.Duration) (*Sample, time.Duration){
		"far above":            known(900),
		"above, below target":  known(220),
		"below":                known(150),
		"below, grace over":    func(at time.Duration) (*Sample, time.Duration) { return memoryAt(at+11*step, 150), 11 * step },
		"below hard":           known(50),
		"unknown":              func(at time.Duration) (*Sample, time.Duration) { return memoryUnknownAt(at + step), step },
		"absent":               func(at time.Duration) (*Sample, time.Duration) { return memoryAbsentAt(at + step), step },
		"not newer":            func(at time.Duration) (*Sample, time.Duration) { return memoryAt(at, 50), 0 },
		"older, clock or not":  func(at time.Duration) (*Sample, time.Duration) { return memoryAt(at-time.Hour, 50), 0 },
		"the hour has changed": func(at time.Duration) (*Sample, time.Duration) { return memoryAt(at+time.Hour, 900), time.Hour },
	}
}

func memoryAbsentAt(offset time.Duration) *Sample {
	s := memoryAt(offset, 0)
	s.Observations[MemoryAvailable] = Observation{State: Absent}
	return s
}

// TestEveryStateIsReachedAndLeft tries all sequences of up to four inputs from the start,
// for a soft and a hard threshold, and compares the transitions with the diagram of type
// phase. No others may occur, and all of them must.
func TestEveryStateIsReachedAndLeft(t *testing.T) {
	t.Parallel()
	thresholds := []Threshold{
		{Signal: MemoryAvailable, Quantity: Absolute(100), Hard: true, MinReclaim: Absolute(50)},
		{Signal: MemoryAvailable, Quantity: Absolute(200), Grace: 10 * time.Second, MinReclaim: Absolute(50)},
	}
	const hard, soft = 0, 1
	seen := [2]map[string]bool{{}, {}}
	all := inputs()
	names := slices.Sorted(maps.Keys(all))
	var walk func(row []string)
	walk = func(row []string) {
		if len(row) > 0 {
			judge, at := NewJudge(JudgeOptions{Thresholds: thresholds}), time.Hour
			var before [2]phase
			for _, name := range row {
				before = [2]phase{judge.lines[hard].phase, judge.lines[soft].phase}
				sample, took := all[name](at)
				judge.Judge(sample)
				at += took
			}
			for which := range before {
				seen[which][fmt.Sprintf("%v to %v", before[which], judge.lines[which].phase)] = true
			}
		}
		if len(row) == 4 {
			return
		}
		for _, name := range names {
			walk(append(slices.Clone(row), name))
		}
	}
	walk(nil)
	want := [2][]string{
		hard: {"calm to calm", "calm to holding", "holding to calm", "holding to holding"},
		soft: {
			"calm to calm", "calm to waiting",
			"holding to calm", "holding to holding",
			"waiting to calm", "waiting to holding", "waiting to waiting",
		},
	}
	for which := range want {
		if got := slices.Sorted(maps.Keys(seen[which])); !slices.Equal(got, want[which]) {
			t.Errorf("%v: transitions %q, want %q", thresholds[which], got, want[which])
		}
	}
}
