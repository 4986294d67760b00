package inflight_test

import (
	"testing"
	"time"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/inflight"
	"github.com/evictd/evictd/pkg/pressure"
)

// returning returns how much of a signal is in flight of what has ended.
func returning(tracker *inflight.Tracker, signal pressure.Signal, now time.Time) (amount int64) {
	p := pressure.Pressure{Threshold: pressure.Threshold{Signal: signal}, SampleTime: now}
	for _, b := range tracker.For(&p, p.Since, func(*pressure.Pressure, time.Duration) bool { return false }) {
		amount += b.Expected.At(signal)
	}
	return amount
}

// TestReturningCountsARiseOnce: what was reclaimed from one victim counts for no other.
func TestReturningCountsARiseOnce(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	sample := func(after time.Duration, available int64) *pressure.Sample {
		s := &pressure.Sample{Time: at.Add(after)}
		s.Observations[pressure.NodeFSAvailable] = pressure.Observation{State: pressure.Known, Available: available, Capacity: 1000}
		return s
	}
	held := func(amount int64) decide.Victim {
		return decide.Victim{Signal: "nodefs.available", Expected: pressure.Amounts{}.With(pressure.NodeFSAvailable, amount)}
	}
	r := inflight.New()
	r.ObserveSpace(sample(0, 100), nil, nil, nil)
	r.ObserveSpace(sample(time.Second, 100), []decide.Victim{held(80), held(60)}, nil, nil)
	for _, step := range []struct {
		after     time.Duration
		available int64
		want      int64
	}{
		{2 * time.Second, 139, 140}, // less than half of the first
		{3 * time.Second, 140, 60},  // half of the first
		{4 * time.Second, 200, 60},  // 80 of it are the first one's
		{5 * time.Second, 210, 0},   // and half of the second
	} {
		r.ObserveSpace(sample(step.after, step.available), nil, nil, nil)
		if got := returning(r, pressure.NodeFSAvailable, at.Add(step.after)); got != step.want {
			t.Errorf("at %d available %d are waited for, want %d", step.available, got, step.want)
		}
	}
	r.ObserveSpace(sample(6*time.Second, 210), []decide.Victim{held(50)}, nil, nil)
	r.ObserveSpace(sample(6*time.Second+inflight.CollectedWithin, 210), nil, nil, nil)
	if got := returning(r, pressure.NodeFSAvailable, at.Add(6*time.Second+inflight.CollectedWithin)); got != 0 {
		t.Errorf("%d are waited for after their time", got)
	}
}

// The space of a victim from before the restart is back when the next one ends, in the first tick.
func TestVictimThatEndsInTheFirstTickAfterARestart(t *testing.T) {
	t.Parallel()
	now := time.Now()
	r := inflight.New()
	r.Restore(inflight.State{Gone: []inflight.Gone{{At: now.Add(-10 * time.Second), Expected: pressure.Amounts{}.With(pressure.NodeFSAvailable, 50), Before: pressure.Amounts{}.With(pressure.NodeFSAvailable, 10), Expires: now.Add(time.Minute)}}}, now)
	var s pressure.Sample
	s.Time = now
	s.Observations[pressure.NodeFSAvailable] = pressure.Observation{State: pressure.Known, Available: 60, Capacity: 1000}
	r.ObserveSpace(&s, []decide.Victim{{Signal: "nodefs.available", Expected: pressure.Amounts{}.With(pressure.NodeFSAvailable, 40)}}, nil, nil)
	if got := returning(r, pressure.NodeFSAvailable, now); got != 40 {
		t.Errorf("%d are waited for, want what the second one held", got)
	}
}

// What a victim held of memory shows while its processes end, before its cgroup has gone; what does
// not show is in flight for ten seconds.
func TestMemoryOfAVictimIsInFlightUntilHalfShows(t *testing.T) {
	t.Parallel()
	const memory = pressure.MemoryAvailable
	sample := func(after time.Duration, available int64) *pressure.Sample {
		s := &pressure.Sample{Time: at(after)}
		s.Observations[memory] = pressure.Observation{State: pressure.Known, Available: available, Capacity: 1000}
		return s
	}
	for name, test := range map[string]struct {
		ending, ended, later int64 // what is available while it ends, when it has, and a second after that
		want, then           int64 // what is in flight of it at the last two
	}{
		"it shows":                          {150, 150, 150, 0, 0},
		"something else has taken it since": {150, 60, 60, 0, 0},
		"it shows late":                     {100, 100, 140, 80, 0},
		"something else takes it meanwhile": {100, 100, 100, 80, 80},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, own := inflight.New(), victim("a", 80)
			own.Signal = "memory.available"
			r.ObserveSpace(sample(0, 100), nil, nil, nil)
			r.Accept(own)
			r.ObserveSpace(sample(time.Second, test.ending), nil, nil, nil)
			for i, available := range []int64{test.ended, test.later} {
				now := time.Duration(2+i) * time.Second
				r.ObserveSpace(sample(now, available), r.Observe(at(now), never), nil, nil)
				if got, want := returning(r, memory, at(now)), []int64{test.want, test.then}[i]; got != want {
					t.Errorf("%d of it are in flight after %v, want %d", got, now, want)
				}
			}
			over := 2*time.Second + inflight.ShownWithin
			r.ObserveSpace(sample(over, test.later), nil, nil, nil)
			if got := returning(r, memory, at(over)); got != 0 {
				t.Errorf("%d of it are in flight after its time", got)
			}
		})
	}
}
