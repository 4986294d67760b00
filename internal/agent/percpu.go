package agent

import "github.com/evictd/evictd/pkg/pressure"

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

// freeOnLists returns how much of the signal is free and not shown yet.
func (a *Agent) freeOnLists(signal pressure.Signal) int64 {
	if signal != pressure.MemoryAvailable || a.policy.MemoryAvailable != pressure.Kernel {
		return 0
	}
	return a.victims.FreeOnLists()
}
