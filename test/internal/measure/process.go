package measure

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// RSS returns the resident memory of a process in bytes: VmRSS of /proc/PID/status.
func RSS(pid int) (int64, error) { return OfProcess(pid, "VmRSS") }

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

// MachineCPU is the CPU time of a whole machine since its start, all cores together.
type MachineCPU struct {
	// Busy is the time that was used, Idle the time that was not, Stolen the time that a
	// hypervisor gave to others.
	Busy, Idle, Stolen time.Duration
}

// ReadMachineCPU reads /proc/stat.
func ReadMachineCPU() (MachineCPU, error) {
	text, err := os.ReadFile("/proc/stat")
	var user, nice, system, idle, iowait, irq, softirq, steal int64
	if err == nil {
		_, err = fmt.Sscanf(string(text), "cpu %d %d %d %d %d %d %d %d", &user, &nice, &system, &idle, &iowait, &irq, &softirq, &steal)
	}
	if err != nil {
		return MachineCPU{}, fmt.Errorf("reading the machine's CPU time: %w", err)
	}
	const tick = 10 * time.Millisecond // on every architecture that Go has
	return MachineCPU{
		Busy: tick * time.Duration(user+nice+system+irq+softirq), Idle: tick * time.Duration(idle+iowait),
		Stolen: tick * time.Duration(steal),
	}, nil
}

// Since returns what passed since an earlier reading.
func (m MachineCPU) Since(before MachineCPU) MachineCPU {
	return MachineCPU{Busy: m.Busy - before.Busy, Idle: m.Idle - before.Idle, Stolen: m.Stolen - before.Stolen}
}
