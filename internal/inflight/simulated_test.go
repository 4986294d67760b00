package inflight

import (
	"errors"
	"testing"
	"time"

	"github.com/evictd/evictd/internal/nodepods"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
)

// What is not known stays so, what counts as reclaimed never makes more than there is, and of a
// stall, of which no end's part is known, nothing does.
func TestSimulatedKeepsUnknownUnknown(t *testing.T) {
	t.Parallel()
	const stall, tasks = pressure.MemoryStall, pressure.PIDAvailable
	tracker, dry := on(&node{pods: []*nodepods.Pod{{Pod: rank.Pod{UID: "a"}}}}), victim("a", 0)
	dry.DryRun, dry.Expected = true, memory(95).With(stall, 95).With(tasks, 5)
	tracker.Accept(dry)
	endGone(tracker, at(time.Minute), always)
	sample := reading(pressure.MemoryAvailable, at(0), 990)
	sample.Observations[stall] = pressure.Observation{State: pressure.Known, Available: 10, Capacity: 100}
	sample.Observations[tasks] = pressure.Observation{Err: errors.New("planted")}
	got := tracker.Without(sample)
	for signal, want := range map[pressure.Signal]int64{pressure.MemoryAvailable: 1000, stall: 10} {
		if seen := got.Of(signal); seen.Available != want {
			t.Errorf("%v: %d are available, want %d", signal, seen.Available, want)
		}
	}
	if seen := got.Of(tasks); seen.State != pressure.Unknown || seen.Available != 0 {
		t.Errorf("an unknown reading became %+v", seen)
	}
	if sample.Of(pressure.MemoryAvailable).Available != 990 {
		t.Error("the sample itself was changed")
	}
}

// TestSimulatedVictims: a dry run's victim counts as ended from its deadline until it really ends, and
// until the dry run does; a real victim never does.
func TestSimulatedVictims(t *testing.T) {
	t.Parallel()
	n := &node{
		pods:  []*nodepods.Pod{{Pod: rank.Pod{UID: "lives"}}, {Pod: rank.Pod{UID: "ends", Marks: rank.Marks{Terminating: true}}}},
		holds: map[string]pressure.Amounts{"lives": memory(7)}, onDisk: map[string]pressure.Amounts{"lives": pressure.Amounts{}.With(pressure.NodeFSAvailable, 1)},
	}
	tracker := on(n)
	for _, uid := range []string{"lives", "ends", "real"} {
		v := own(uid, 10)
		v.DryRun = uid != "real"
		tracker.Accept(v)
	}
	counts := func(want int64) {
		t.Helper()
		if got := tracker.simulatedAmount(pressure.MemoryAvailable); got != want || tracker.Simulated("real") {
			t.Errorf("%d count as reclaimed, want %d", got, want)
		}
	}
	endGone(tracker, at(time.Second), always)
	counts(0)
	endGone(tracker, at(time.Minute), func(uid string) bool { return uid != "real" })
	counts(7)
	if got := tracker.simulatedAmount(pressure.NodeFSAvailable); got != 1 {
		t.Errorf("%d of a disk count as reclaimed, want 1", got)
	}
	n.holds, n.unread = nil, errors.New("planted")
	tracker.Update(t.Context(), at(time.Minute))
	counts(7)
	tracker.Adopt(false)
	counts(0)
}
