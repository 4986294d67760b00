package inflight

import (
	"testing"
	"time"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/pkg/pressure"
)

// awaited returns how much of a signal is in flight of what has ended.
func awaited(tracker *Tracker, signal pressure.Signal, now time.Time) (amount int64) {
	for _, v := range tracker.inFlight(situation(signal, now, nil)) {
		amount += v.Expected.At(signal)
	}
	return amount
}

// ends lets victims end that hold so much of nodefs.
func ends(tracker *Tracker, now time.Time, amounts ...int64) {
	for i, amount := range amounts {
		v := own(string(rune('a'+i)), 0)
		v.Expected = pressure.Amounts{}.With(pressure.NodeFSAvailable, amount)
		tracker.Accept(v)
	}
	endGone(tracker, now, never)
}

// TestReturningCountsARiseOnce: what was reclaimed from one victim counts for no other.
func TestReturningCountsARiseOnce(t *testing.T) {
	t.Parallel()
	const disk = pressure.NodeFSAvailable
	r := on(&node{})
	r.Observe(reading(disk, at(0), 100), true)
	ends(r, at(time.Second), 80, 60)
	r.Observe(reading(disk, at(time.Second), 100), true)
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
		r.Observe(reading(disk, at(step.after), step.available), true)
		if got := awaited(r, disk, at(step.after)); got != step.want {
			t.Errorf("at %d available %d are waited for, want %d", step.available, got, step.want)
		}
	}
	ends(r, at(6*time.Second), 50)
	r.Observe(reading(disk, at(6*time.Second), 210), true)
	r.Observe(reading(disk, at(6*time.Second+decide.CollectedWithin), 210), true)
	if got := awaited(r, disk, at(6*time.Second+decide.CollectedWithin)); got != 0 {
		t.Errorf("%d are waited for after their time", got)
	}
}

// The space of a victim from before the restart is back when the next one ends, in the first tick.
func TestVictimThatEndsInTheFirstTickAfterARestart(t *testing.T) {
	t.Parallel()
	const disk = pressure.NodeFSAvailable
	r := on(&node{})
	amount := func(n int64) pressure.Amounts { return pressure.Amounts{}.With(disk, n) }
	r.Restore(State{Victims: []decide.Victim{{Phase: decide.Gone, Ended: at(-10 * time.Second), Expected: amount(50), Before: amount(10)}}}, at(0))
	ends(r, at(0), 40)
	r.Observe(reading(disk, at(0), 60), true)
	if got := awaited(r, disk, at(0)); got != 40 {
		t.Errorf("%d are waited for, want what the second one held", got)
	}
}

// What a victim held of memory shows while its processes end, before its cgroup has gone; what does
// not show is in flight for ten seconds.
func TestMemoryOfAVictimIsInFlightUntilHalfShows(t *testing.T) {
	t.Parallel()
	const memory = pressure.MemoryAvailable
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
			r := on(&node{})
			r.Observe(reading(memory, at(0), 100), true)
			r.Accept(own("a", 80))
			r.Observe(reading(memory, at(time.Second), test.ending), true)
			for i, available := range []int64{test.ended, test.later} {
				now := at(time.Duration(2+i) * time.Second)
				endGone(r, now, never)
				r.Observe(reading(memory, now, available), true)
				if got, want := awaited(r, memory, now), []int64{test.want, test.then}[i]; got != want {
					t.Errorf("%d of it are in flight at %v, want %d", got, now, want)
				}
			}
			over := at(2*time.Second + decide.ShownWithin)
			r.Observe(reading(memory, over, test.later), true)
			if got := awaited(r, memory, over); got != 0 {
				t.Errorf("%d of it are in flight after its time", got)
			}
		})
	}
}
