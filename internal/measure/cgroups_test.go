package measure

import (
	"testing"

	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/usage"
)

// TestAmountIsWhatIsExpected: a pod is ranked by the amount that its end is expected to free and
// that is booked.
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
		{pressure.KubeletMemoryAvailable, pressure.Kernel, 1000},
		{pressure.KubeletMemoryAvailable, pressure.WorkingSet, 1000},
		{pressure.AllocatableMemoryAvailable, pressure.Kernel, 123},
		{pressure.AllocatableMemoryAvailable, pressure.WorkingSet, 1000},
		{pressure.MemoryStall, pressure.Kernel, 123},
		{pressure.MemoryStall, pressure.WorkingSet, 1000},
		{pressure.PIDAvailable, pressure.Kernel, 7},
	} {
		use := CgroupUse(test.signal, test.definition, &pod)
		frees := test.want
		if test.signal == pressure.MemoryStall {
			frees = WholeStall
		}
		if !use.Known || use.Value != test.want || use.Expected.At(test.signal) != frees {
			t.Errorf("%s by %s: %+v, want %d", test.signal, test.definition, use, test.want)
		}
	}
	if use := CgroupUse(pressure.PIDAvailable, pressure.Kernel, &usage.Pod{Anonymous: 1}); use.Known {
		t.Errorf("tasks that were not read are known: %+v", use)
	}
	if reclaim := (&usage.Pod{Anonymous: 100, Shared: 20, Kernel: 3}).Reclaim(); reclaim != 120 {
		t.Errorf("kernel memory that is not known counts: %d", reclaim)
	}
	// A victim that has freed its memory ends no stall any more, and 0 replaces what was booked.
	if got, there := Expected(&usage.Pod{WorkingSet: 1 << 20}, pressure.Kernel).Of(pressure.MemoryStall); got != 0 || !there {
		t.Errorf("without memory: expected %d, %v", got, there)
	}
}
