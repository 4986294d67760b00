package agent

import (
	"time"

	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/usage"
)

// amountOf measures a pod for a signal, in the signal's unit. The ranking, what an end
// should give back and what is booked all use it, so that none of them counts what the
// signal does not: by the working set a pod that only holds page cache would go first,
// and its end would return nothing to MemAvailable.
//
//   - memory.available, by the kernel's definition: what the pod's end gives back to
//     MemAvailable, see [usage.Pod.Reclaim]; by the kubelet's: the working set. Some of
//     its page cache may outlive the pod, but to rely on less than what may come back
//     would evict a second pod for what the first one held.
//   - allocatableMemory.available: the working set, which is what it counts as used.
//   - memory.stall: as memory.available; stalls are not measured for each pod.
//   - pid.available: tasks, which may be unknown.
func amountOf(signal pressure.Signal, definition pressure.MemoryDefinition, u *usage.Pod) (amount int64, known bool) {
	switch {
	case signal == pressure.PIDAvailable:
		return u.Tasks, u.TasksKnown
	case signal == pressure.AllocatableMemoryAvailable, definition == pressure.WorkingSet:
		return u.WorkingSet, true
	default:
		return u.Reclaim(), true
	}
}

// cgroupExpected returns what the pod's end should free, in the measure of each signal.
func cgroupExpected(u *usage.Pod, definition pressure.MemoryDefinition) pressure.Amounts {
	var expected pressure.Amounts
	for _, signal := range []pressure.Signal{
		pressure.MemoryAvailable, pressure.AllocatableMemoryAvailable, pressure.MemoryStall, pressure.PIDAvailable,
	} {
		if amount, known := amountOf(signal, definition, u); known {
			expected = expected.With(signal, amount)
		}
	}
	// How much of a stall a pod's end will end is not known: while one that holds memory
	// is on its way out, it is waited for.
	if expected.At(pressure.MemoryStall) > 0 {
		expected = expected.With(pressure.MemoryStall, wholeStall)
	}
	return expected
}

// wholeStall is more than any window can hold, in microseconds.
const wholeStall = int64(time.Hour / time.Microsecond)

// cgroupUse is what a pod's cgroup says for a signal.
func cgroupUse(signal pressure.Signal, definition pressure.MemoryDefinition, u *usage.Pod) use {
	amount, known := amountOf(signal, definition, u)
	return use{
		value: amount, known: known, expected: cgroupExpected(u, definition),
		workingSet: u.WorkingSet, reclaim: u.Reclaim(),
	}
}
