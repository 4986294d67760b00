package pressure

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"
)

func (p phase) String() string { return [...]string{"calm", "waiting", "holding"}[p] }

// input is a sample so long after the previous one.
type input struct {
	after  time.Duration
	sample func(at time.Duration) *Sample
}

// inputs are all readings that a sample can have for a soft threshold of 200, with a grace
// period of 10 s and a minimum reclaim of 50, and for the hard one of 100 behind it.
func inputs() []input {
	const step = time.Second
	of := func(available int64) func(time.Duration) *Sample {
		return func(at time.Duration) *Sample { return memoryAt(at, available) }
	}
	absent := func(at time.Duration) *Sample {
		return &Sample{Time: moment(at), Observations: [SignalCount]Observation{{State: Absent}}}
	}
	return []input{
		{step, of(900)},      // far above
		{step, of(220)},      // above, below the target
		{step, of(150)},      // below
		{11 * step, of(150)}, // below, and the grace period is over
		{step, of(50)},       // below the hard one
		{step, memoryUnknownAt},
		{step, absent},
		{0, of(50)}, // not newer
		{-time.Hour, of(50)},
		{time.Hour, of(900)},
	}
}

// TestEveryStateIsReachedAndLeft tries all sequences of up to four inputs from the start,
// for a soft and a hard threshold, and compares the transitions with the diagram of type
// phase. No others may occur, and all of them must.
func TestEveryStateIsReachedAndLeft(t *testing.T) {
	t.Parallel()
	thresholds := []Threshold{hardMemory(100), softMemory(200, 10*time.Second)}
	for i := range thresholds {
		thresholds[i].MinReclaim = Absolute(50)
	}
	seen := [2]map[string]bool{{}, {}}
	var walk func(row []input)
	walk = func(row []input) {
		judge, at := NewJudge(thresholds, 0), time.Hour
		var before [2]phase
		for _, next := range row {
			before = [2]phase{judge.lines[0].phase, judge.lines[1].phase}
			judge.Judge(next.sample(at + next.after))
			at += max(0, next.after)
		}
		for which := range before {
			seen[which][fmt.Sprintf("%v to %v", before[which], judge.lines[which].phase)] = true
		}
		if len(row) == 4 {
			return
		}
		for _, next := range inputs() {
			walk(append(slices.Clone(row), next))
		}
	}
	for _, first := range inputs() {
		walk([]input{first})
	}
	for which, want := range [2][]string{
		{"calm to calm", "calm to holding", "holding to calm", "holding to holding"},
		{
			"calm to calm", "calm to waiting", "holding to calm", "holding to holding",
			"waiting to calm", "waiting to holding", "waiting to waiting",
		},
	} {
		if got := slices.Sorted(maps.Keys(seen[which])); !slices.Equal(got, want) {
			t.Errorf("%v: transitions %q, want %q", thresholds[which], got, want)
		}
	}
}
