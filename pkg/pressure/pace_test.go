package pressure

import (
	"testing"
	"time"
)

// memoryBytes returns a sample of a node with 24 GiB.
func memoryBytes(offset time.Duration, available int64) *Sample {
	s := memoryAt(offset, 0)
	s.Observations[MemoryAvailable] = Observation{State: Known, Available: available, Capacity: 24 * gib}
	return s
}

func TestPacerFollowsHeadroom(t *testing.T) {
	t.Parallel()
	pacing := Pacing{Min: 10 * time.Millisecond, Max: time.Second}
	thresholds := []Threshold{hardMemory(gib)}
	for name, test := range map[string]struct {
		sample *Sample
		want   time.Duration
	}{
		"far away: the longest pause":                 {memoryBytes(0, 20*gib), time.Second},
		"600 MiB at 6 GiB/s":                          {memoryBytes(0, gib+600<<20), 600 * time.Second / (6 * 1024)},
		"just above the line: the shortest pause":     {memoryBytes(0, gib+1), 10 * time.Millisecond},
		"below every line: only a recovery to notice": {memoryBytes(0, gib-1), 100 * time.Millisecond},
		"unknown: reading it faster does not help":    {memoryUnknownAt(0), time.Second},
	} {
		got := NewPacer(pacing, thresholds).Next(test.sample)
		if (got - test.want).Abs() > time.Millisecond {
			t.Errorf("%s: next sample in %v, want %v", name, got, test.want)
		}
	}
}

func TestPacerLearnsAFasterRateAndForgetsIt(t *testing.T) {
	t.Parallel()
	pacing := Pacing{Min: time.Millisecond, Max: 10 * time.Second}
	pacer := NewPacer(pacing, []Threshold{hardMemory(gib)})
	pacer.Next(memoryBytes(0, 23*gib))
	fast := pacer.Next(memoryBytes(time.Second, 13*gib)) // 10 GiB in a second
	if want := 1200 * time.Millisecond; fast != want {
		t.Errorf("after a fall of 10 GiB/s the next sample is due in %v, want %v", fast, want)
	}
	stands := pacer.Next(memoryBytes(time.Second, 10*gib)) // a clock that does
	if want := 900 * time.Millisecond; stands != want {
		t.Errorf("after a fall in no time it is due in %v, want %v", stands, want)
	}
	calm := pacer.Next(memoryBytes(61*time.Second, 13*gib))
	if want := 2 * time.Second; calm != want {
		t.Errorf("a minute later it is due in %v, want %v", calm, want)
	}
}
