package measure

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// SumOf adds up the numbers after these names at the start of the lines of a file of the kernel.
func SumOf(text string, names ...string) int64 {
	sum := int64(0)
	for line := range strings.Lines(text) {
		name, number, _ := strings.Cut(strings.TrimSpace(line), " ")
		if slices.Contains(names, name) {
			value, _ := strconv.ParseInt(number, 10, 64) // the kernel writes numbers
			sum += value
		}
	}
	return sum
}

// Bytes returns a figure of a file of the kernel such as /proc/meminfo, which has it in kB.
func Bytes(path, name string) (int64, error) {
	text, err := os.ReadFile(path) //nolint:gosec // of /proc
	if err != nil {
		return 0, fmt.Errorf("reading %s of the kernel: %w", name, err)
	}
	for line := range strings.Lines(string(text)) {
		var kibibytes int64
		if n, _ := fmt.Sscanf(line, name+": %d kB", &kibibytes); n == 1 {
			return kibibytes << 10, nil
		}
	}
	return 0, fmt.Errorf("reading %s of the kernel: %s does not have it", name, path)
}

// Every calls read at an interval until the context ends, or read fails. It does so on a thread of its own, which goes
// before all others: it shares the cores with what it measures, and must not be late when they are all in use.
func Every(ctx context.Context, interval time.Duration, read func(now time.Time) error) error {
	runtime.LockOSThread() // never unlocked: the thread ends with its goroutine
	first := &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: 1}
	if err := unix.SchedSetAttr(0, first, 0); err != nil {
		return fmt.Errorf("putting a thread first: %w", err)
	}
	for ctx.Err() == nil {
		now := time.Now()
		if err := read(now); err != nil {
			return err
		}
		_ = Sleep(ctx, interval-time.Since(now)) // the loop asks the context
	}
	return nil
}

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
