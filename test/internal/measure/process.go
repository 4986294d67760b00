package measure

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// userHertz is the unit of the kernel's CPU times in /proc, on every architecture that Go has.
const userHertz = 100

// RSS returns the resident memory of a process in bytes: VmRSS of /proc/PID/status.
func RSS(pid int) (int64, error) { return OfProcess(pid, "VmRSS") }

// OfProcess returns a figure of /proc/PID/status, in bytes.
func OfProcess(pid int, name string) (int64, error) {
	return Bytes(filepath.Join("/proc", strconv.Itoa(pid), "status"), name)
}

// CPU returns the CPU time that a process has used so far: utime and stime of /proc/PID/stat.
func CPU(pid int) (time.Duration, error) {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return 0, fmt.Errorf("reading the CPU time of process %d: %w", pid, err)
	}
	const utime, stime = 14 - 3, 15 - 3 // counted from the state, after the name in brackets
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(fields) <= stime {
		return 0, fmt.Errorf("reading the CPU time of process %d: only %d fields", pid, len(fields))
	}
	return ticks(fields[utime], fields[stime])
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
	if err != nil {
		return MachineCPU{}, fmt.Errorf("reading the machine's CPU time: %w", err)
	}
	line, _, _ := strings.Cut(string(text), "\n")
	f := strings.Fields(line) // cpu user nice system idle iowait irq softirq steal …
	const user, nice, system, idle, iowait, irq, softirq, steal = 1, 2, 3, 4, 5, 6, 7, 8
	if len(f) <= steal {
		return MachineCPU{}, fmt.Errorf("reading the machine's CPU time: only %d fields", len(f))
	}
	var m MachineCPU
	if m.Busy, err = ticks(f[user], f[nice], f[system], f[irq], f[softirq]); err != nil {
		return m, err
	}
	if m.Idle, err = ticks(f[idle], f[iowait]); err != nil {
		return m, err
	}
	m.Stolen, err = ticks(f[steal])
	return m, err
}

// Since returns what passed since an earlier reading.
func (m MachineCPU) Since(before MachineCPU) MachineCPU {
	return MachineCPU{Busy: m.Busy - before.Busy, Idle: m.Idle - before.Idle, Stolen: m.Stolen - before.Stolen}
}

// ticks adds CPU times up.
func ticks(fields ...string) (time.Duration, error) {
	var sum int64
	for _, field := range fields {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("reading a CPU time: %w", err)
		}
		sum += n
	}
	return time.Duration(sum) * (time.Second / userHertz), nil
}
