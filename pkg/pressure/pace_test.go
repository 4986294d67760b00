package pressure

import (
	"testing"
	"time"
)

const gibibyte = 1 << 30

// memoryBytes returns a sample of a node with 24 GiB.
func memoryBytes(offset time.Duration, available int64) *Sample {
	s := memoryAt(offset, 0)
	s.Observations[MemoryAvailable] = Observation{State: Known, Available: available, Capacity: 24 * gibibyte}
	return s
}

func TestPacerFollowsHeadroom(t *testing.T) {
	t.Parallel()
	pacing := Pacing{Min: 10 * time.Millisecond, Max: time.Second}
	thresholds := []Threshold{hardMemory(gibibyte)}
	for name, test := range map[string]struct {
		sample *Sample
		want   time.Duration
	}{
		"far away: the longest pause":                 {memoryBytes(0, 20*gibibyte), time.Second},
		"600 MiB at 6 GiB/s":                          {memoryBytes(0, gibibyte+600<<20), 600 * time.Second / (6 * 1024)},
		"just above the line: the shortest pause":     {memoryBytes(0, gibibyte+1), 10 * time.Millisecond},
		"below every line: only a recovery to notice": {memoryBytes(0, gibibyte-1), 100 * time.Millisecond},
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
	pacer := NewPacer(pacing, []Threshold{hardMemory(gibibyte)})
	pacer.Next(memoryBytes(0, 23*gibibyte))
	fast := pacer.Next(memoryBytes(time.Second, 13*gibibyte)) // 10 GiB in a second
	if want := 1200 * time.Millisecond; fast != want {
		t.Errorf("after a fall of 10 GiB/s the next sample is due in %v, want %v", fast, want)
	}
	calm := pacer.Next(memoryBytes(61*time.Second, 13*gibibyte))
	if want := 2 * time.Second; calm != want {
		t.Errorf("a minute later it is due in %v, want %v", calm, want)
	}
}

func TestPacerMindsAClockThatStandsStill(t *testing.T) {
	t.Parallel()
	pacer := NewPacer(Pacing{Min: time.Millisecond, Max: time.Second}, []Threshold{hardMemory(gibibyte)})
	pacer.Next(memoryBytes(0, 23*gibibyte))
	if got := pacer.Next(memoryBytes(0, 20*gibibyte)); got != time.Second {
		t.Errorf("next sample in %v, want the longest pause", got)
	}
}
