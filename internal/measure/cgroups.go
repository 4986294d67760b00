package measure

import (
	"time"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/nodepods"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/usage"
)

// amountOf measures a pod for a signal, in the signal's unit. The ranking, what an end should free
// and what is booked all use it, so that none of them counts what the signal does not:
// docs/adr/0002. Stalls are not measured for each pod, but as memory.available.
func amountOf(signal pressure.Signal, definition pressure.MemoryDefinition, u *usage.Pod) (amount int64, known bool) {
	switch {
	case signal.Kind() == pressure.PIDKind:
		return u.Tasks, u.TasksKnown
	case signal.CountsWorkingSet(definition):
		return u.WorkingSet, true
	default:
		return u.Reclaim(), true
	}
}

// expected returns what the end of the pod whose cgroup it is should free, in the measure of each signal.
func expected(u *usage.Pod, definition pressure.MemoryDefinition) pressure.Amounts {
	var frees pressure.Amounts
	for _, signal := range pressure.Signals() {
		if signal.OnDisk() {
			continue
		}
		if amount, known := amountOf(signal, definition, u); known {
			frees = frees.With(signal, amount)
		}
	}
	// How much of a stall a pod's end removes is not known: while a pod that holds memory is in
	// flight, its end is waited for.
	if frees.At(pressure.MemoryStall) > 0 {
		frees = frees.With(pressure.MemoryStall, WholeStall)
	}
	return frees
}

// WholeStall is more than any window can hold, in microseconds.
const WholeStall = int64(time.Hour / time.Microsecond)

// cgroupUse is what a pod's cgroup says for a signal.
func cgroupUse(signal pressure.Signal, definition pressure.MemoryDefinition, u *usage.Pod) decide.Use {
	amount, known := amountOf(signal, definition, u)
	return decide.Use{
		Value: amount, Known: known && !u.Unused, Emptied: u.Unused, Expected: expected(u, definition),
		WorkingSet: u.WorkingSet, Reclaim: u.Reclaim(),
	}
}

// CgroupUses joins what was read with the pods.
func CgroupUses(signal pressure.Signal, definition pressure.MemoryDefinition, pods []*nodepods.Pod, read []usage.Pod) *decide.Uses {
	unlisted := make(map[string]decide.Use, len(read))
	for i := range read {
		unlisted[read[i].UID] = cgroupUse(signal, definition, &read[i])
	}
	uses := &decide.Uses{ByUID: make(map[string]decide.Use, len(pods)), Unlisted: unlisted}
	for _, pod := range pods {
		if use, was := unlisted[pod.CgroupUID]; was {
			uses.ByUID[pod.UID] = use
			delete(unlisted, pod.CgroupUID)
		}
	}
	return uses
}
