package inflight_test

import (
	"errors"
	"testing"
	"time"

	"github.com/evictd/evictd/internal/inflight"
	"github.com/evictd/evictd/internal/nodepods"
	"github.com/evictd/evictd/pkg/pressure"
)

// What is not known stays so, what counts as reclaimed never makes more than there is, and of a
// stall, of which no end's part is known, nothing does.
func TestSimulatedKeepsUnknownUnknown(t *testing.T) {
	t.Parallel()
	const memory, tasks, stall = pressure.MemoryAvailable, pressure.PIDAvailable, pressure.MemoryStall
	var s inflight.Simulated
	s.Restore("a")
	s.Measure(func(string, string) pressure.Amounts {
		return pressure.Amounts{}.With(memory, 95).With(stall, 95).With(tasks, 5)
	})
	var sample pressure.Sample
	sample.Observations[memory] = pressure.Observation{State: pressure.Known, Available: 10, Capacity: 100}
	sample.Observations[stall] = pressure.Observation{State: pressure.Known, Available: 10, Capacity: 100}
	sample.Observations[tasks] = pressure.Observation{Err: errors.New("planted")}
	got := s.AddTo(&sample)
	for signal, want := range map[pressure.Signal]int64{memory: 100, stall: 10} {
		if seen := got.Of(signal); seen.Available != want {
			t.Errorf("%v: %d are available, want %d", signal, seen.Available, want)
		}
	}
	if seen := got.Of(tasks); seen.State != pressure.Unknown || seen.Available != 0 {
		t.Errorf("an unknown reading became %+v", seen)
	}
}

// TestSimulatedFollowsTheTracker: a dry run's victim counts as ended from the end of its booking
// until it really ends, and until the dry run does; a real victim never does.
func TestSimulatedFollowsTheTracker(t *testing.T) {
	t.Parallel()
	tracker := inflight.New()
	for _, uid := range []string{"lives", "ends", "real"} {
		b := victim(uid, 10)
		b.Signal, b.DryRun = "memory.available", uid != "real"
		tracker.Accept(b)
	}
	s := tracker.Simulated()
	if tracker.Observe(at(time.Second), always); !s.Empty() {
		t.Error("a pod counts as gone while its booking lasts")
	}
	tracker.Observe(at(time.Minute), func(uid string) bool { return uid != "real" })
	if got := s.Amount(pressure.MemoryAvailable); got != 20 || s.Has("real") {
		t.Errorf("%d count as reclaimed, want the 20 of the dry run", got)
	}
	s.ObservePods([]*nodepods.Pod{{UID: "lives", CgroupUID: "other"}, {UID: "ends", Terminating: true}})
	s.Measure(func(uid, cgroup string) pressure.Amounts {
		if uid != "lives" || cgroup != "other" {
			t.Errorf("measured %s by %s", uid, cgroup)
		}
		return pressure.Amounts{}.With(pressure.NodeFSAvailable, 1)
	})
	if got := s.Amount(pressure.MemoryAvailable); got != 10 || !s.HoldsDisk() {
		t.Errorf("%d count as reclaimed, want 10, and some of a disk", got)
	}
	if tracker.ForgetDryRuns(); !s.Empty() {
		t.Error("it counts as gone after the dry run")
	}
}
