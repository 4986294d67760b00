package agent

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/usage"
)

// What a pod is ranked by is what its end is expected to give back and what is booked.
func TestAmountIsWhatIsExpected(t *testing.T) {
	t.Parallel()
	pod := usage.Pod{WorkingSet: 1000, Anonymous: 100, Shared: 20, Kernel: 3, KernelKnown: true, Tasks: 7, TasksKnown: true}
	for _, test := range []struct {
		signal     pressure.Signal
		definition pressure.MemoryDefinition
		want       int64
	}{
		{pressure.MemoryAvailable, pressure.Kernel, 123},
		{pressure.MemoryAvailable, pressure.WorkingSet, 1000},
		{pressure.AllocatableMemoryAvailable, pressure.Kernel, 1000},
		{pressure.AllocatableMemoryAvailable, pressure.WorkingSet, 1000},
		{pressure.MemoryStall, pressure.Kernel, 123},
		{pressure.MemoryStall, pressure.WorkingSet, 1000},
		{pressure.PIDAvailable, pressure.Kernel, 7},
	} {
		use := cgroupUse(test.signal, test.definition, &pod)
		expected := test.want
		if test.signal == pressure.MemoryStall {
			expected = wholeStall
		}
		if !use.known || use.value != test.want || use.expected.At(test.signal) != expected {
			t.Errorf("%s by %s: %+v, want %d", test.signal, test.definition, use, test.want)
		}
	}
	if use := cgroupUse(pressure.PIDAvailable, pressure.Kernel, &usage.Pod{Anonymous: 1}); use.known {
		t.Errorf("tasks that were not read are known: %+v", use)
	}
	if reclaim := (&usage.Pod{Anonymous: 100, Shared: 20, Kernel: 3}).Reclaim(); reclaim != 120 {
		t.Errorf("kernel memory that is not known counts: %d", reclaim)
	}
}

// Page cache moves no pod ahead in the ranking for MemAvailable.
func TestFaultRankingCountsCacheThatIsAvailable(t *testing.T) {
	t.Parallel()
	for definition, want := range map[pressure.MemoryDefinition]string{pressure.Kernel: "leaker", pressure.WorkingSet: "cached"} {
		synctest.Test(t, func(t *testing.T) {
			n := newFakeNode(1000)
			n.stubborn = true
			n.run("cached", 12, 8)
			n.pods["uid-cached"].cache = 600 * mebi
			n.run("leaker", 300, 100)
			n.host, n.countsCache = 649*mebi, definition == pressure.WorkingSet
			if n.countsCache {
				n.host -= 600 * mebi
			}
			policy := helpingPolicy()
			policy.Thresholds[0].Quantity = pressure.Absolute(50 * mebi)
			policy.MemoryAvailable = definition
			watch(t, n, policy, time.Second)
			n.wantVictims(t, want)
			d := n.last(t)
			for _, e := range append(d.Ranking.Candidates, d.Ranking.Protected...) {
				if e.Pod.Name == "cached" && (e.Pod.Reclaim != 12*mebi || e.Pod.WorkingSet != 612*mebi) {
					t.Errorf("both figures of its memory: %d and %d", e.Pod.Reclaim, e.Pod.WorkingSet)
				}
			}
		})
	}
}
