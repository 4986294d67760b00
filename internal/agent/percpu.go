package agent

import (
	"fmt"

	"github.com/evictd/evictd/internal/wording"
	"github.com/evictd/evictd/pkg/pressure"
)

// readLists reads the kernel's per-CPU lists; false where that cannot be done, and nothing
// counts then.
func (a *Agent) readLists() (int64, bool) {
	if a.options.FreeOnCPULists == nil {
		return 0, false
	}
	bytes, err := a.options.FreeOnCPULists()
	if err != nil {
		a.options.Recorder.ReadError(string(pressure.ProcSource), err)
		return 0, false
	}
	return bytes, true
}

// unshownOf returns how much of the signal is free and not shown yet.
func (a *Agent) unshownOf(p *pressure.Pressure) int64 {
	if p.Threshold.Signal != pressure.MemoryAvailable || a.policy.MemoryAvailable != pressure.Kernel {
		return 0
	}
	return a.victims.FreeOnLists()
}

// freeAlready says how much of what is missing is free and not shown yet; "" when nothing is.
func (a *Agent) freeAlready(p *pressure.Pressure) string {
	free := a.unshownOf(p)
	if free == 0 {
		return ""
	}
	return fmt.Sprintf("; %s of it is free on the kernel's per-CPU lists, which MemAvailable does not count",
		wording.Amount(p.Threshold.Signal, free))
}
