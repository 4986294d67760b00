package inflight

import (
	"errors"
	"testing"
	"time"

	"github.com/evictd/evictd/internal/nodepods"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
)

// A dry run's victim counts as ended from its deadline until it really ends, and until the dry run does; a real victim
// never does. What counts as reclaimed never makes more than there is, and of a stall, of which no end's part is known,
// nothing does. What is not known stays so.
func TestSimulatedVictims(t *testing.T) {
	t.Parallel()
	const stall, tasks, disk = pressure.MemoryStall, pressure.PIDAvailable, pressure.NodeFSAvailable
	n := &node{
		pods:  []*nodepods.Pod{{Pod: rank.Pod{UID: "lives"}}, {Pod: rank.Pod{UID: "ends", Marks: rank.Marks{Terminating: true}}}},
		holds: map[string]pressure.Amounts{"lives": memory(95)}, onDisk: map[string]pressure.Amounts{"lives": pressure.Amounts{}.With(disk, 1)},
	}
	tracker := on(n)
	for _, uid := range []string{"lives", "ends", "real"} {
		v := own(uid, 10)
		v.DryRun, v.Expected = uid != "real", v.Expected.With(stall, 95).With(tasks, 5)
		if uid == "lives" { // admission says that it would move it away
			v.Signal = ""
		}
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
	counts(95)
	sample := reading(pressure.MemoryAvailable, at(0), 990)
	sample.Observations[stall] = pressure.Observation{State: pressure.Known, Available: 10, Capacity: 100}
	sample.Observations[disk] = pressure.Observation{State: pressure.Known, Available: 10, Capacity: 100}
	sample.Observations[tasks] = pressure.Observation{Err: errors.New("planted")}
	before := *sample
	got := tracker.Without(sample)
	for signal, want := range map[pressure.Signal]int64{pressure.MemoryAvailable: 1000, stall: 10, disk: 11, tasks: 0} {
		if seen := got.Of(signal); seen.Available != want || seen.State != before.Of(signal).State {
			t.Errorf("%v: %+v, want %d", signal, seen, want)
		}
	}
	if *sample != before {
		t.Error("the sample itself was changed")
	}
	n.holds, n.unread = nil, errors.New("planted")
	tracker.Update(t.Context(), at(time.Minute))
	counts(95)
	tracker.Adopt(false)
	counts(0)
}
