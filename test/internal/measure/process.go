package measure

import (
	"fmt"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// OfProcess returns a figure of /proc/PID/status, in bytes.
func OfProcess(pid int, name string) (int64, error) {
	return Bytes(filepath.Join("/proc", strconv.Itoa(pid), "status"), name)
}

// CPU returns the CPU time that a process has used so far, in all of its threads.
func CPU(pid int) (time.Duration, error) {
	const scheduled = 2 // CPUCLOCK_SCHED of linux/posix-timers.h
	var used unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|scheduled), &used); err != nil { //nolint:gosec // a process ID has 22 bits
		return 0, fmt.Errorf("reading the CPU time of process %d: %w", pid, err)
	}
	return time.Duration(used.Nano()), nil
}
