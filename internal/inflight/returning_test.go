package inflight_test

import (
	"testing"
	"time"

	"github.com/evictd/evictd/internal/inflight"
	"github.com/evictd/evictd/pkg/pressure"
)

// TestReturningCountsARiseOnce: what was reclaimed from one victim counts for no other.
func TestReturningCountsARiseOnce(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	sample := func(after time.Duration, available int64) *pressure.Sample {
		s := &pressure.Sample{Time: at.Add(after)}
		s.Observations[pressure.NodeFSAvailable] = pressure.Observation{State: pressure.Known, Available: available, Capacity: 1000}
		return s
	}
	held := func(amount int64) inflight.Booking {
		return inflight.Booking{Signal: "nodefs.available", Expected: pressure.Amounts{}.With(pressure.NodeFSAvailable, amount)}
	}
	r := inflight.New()
	r.ObserveSpace(sample(0, 100), nil, nil, nil)
	r.ObserveSpace(sample(time.Second, 100), []inflight.Booking{held(80), held(60)}, nil, nil)
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
		if got, _ := r.Returning(pressure.NodeFSAvailable); got != step.want {
			t.Errorf("at %d available %d are waited for, want %d", step.available, got, step.want)
		}
	}
	r.ObserveSpace(sample(6*time.Second, 210), []inflight.Booking{held(50)}, nil, nil)
	r.ObserveSpace(sample(6*time.Second+inflight.CollectedWithin, 210), nil, nil, nil)
	if got, _ := r.Returning(pressure.NodeFSAvailable); got != 0 {
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
	r.ObserveSpace(&s, []inflight.Booking{{Signal: "nodefs.available", Expected: pressure.Amounts{}.With(pressure.NodeFSAvailable, 40)}}, nil, nil)
	if got, _ := r.Returning(pressure.NodeFSAvailable); got != 40 {
		t.Errorf("%d are waited for, want what the second one held", got)
	}
}
