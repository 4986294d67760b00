package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// Process identifies one process until the machine restarts: the kernel reuses the number
// alone.
type Process struct {
	// PID is the process's number.
	PID int `json:"pid"`
	// StartTime is when it started, in clock ticks since the machine's start: field 22 of
	// /proc/PID/stat.
	StartTime uint64 `json:"startTime"`
}

// identify reads the identity of the process that currently has the number.
func identify(pid int) (Process, error) {
	fields, err := readStat(pid)
	if err != nil {
		return Process{}, err
	}
	const startTime = 22 - 3 // the fields here begin with the third
	started, err := strconv.ParseUint(fields[startTime], 10, 64)
	if err != nil {
		return Process{}, fmt.Errorf("reading the start time of process %d: %w", pid, err)
	}
	return Process{PID: pid, StartTime: started}, nil
}

// readStat returns the fields of /proc/PID/stat from the third, the state, on. The second is
// the name in brackets and may itself contain spaces and brackets.
func readStat(pid int) ([]string, error) {
	content, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return nil, fmt.Errorf("reading the state of process %d: %w", pid, err)
	}
	fields := strings.Fields(string(content[bytes.LastIndexByte(content, ')')+1:]))
	const fewest = 20
	if len(fields) < fewest {
		return nil, fmt.Errorf("reading the state of process %d: only %d fields", pid, len(fields))
	}
	return fields, nil
}

// Running reports whether this process runs, and not another one with its number. An ended
// process that waits for its parent does not run once its last thread has ended: the first
// thread of a killed process may be a zombie while others still hold its ports.
func (p Process) Running() bool {
	if p.PID == 0 {
		return false
	}
	now, err := identify(p.PID)
	if err != nil || now != p {
		return false
	}
	fields, err := readStat(p.PID)
	const threads = 20 - 3 // "0" or "1" of a process all of whose threads have ended
	return err == nil && (fields[0] != "Z" || fields[threads] > "1") && fields[0] != "X"
}

// signal sends a signal to this process, and never to another one with its number. It
// returns no error when the process has ended.
func (p Process) signal(signal syscall.Signal) error {
	if p.PID == 0 {
		return nil
	}
	// The handle is a pidfd: once the identity is confirmed behind it, the number cannot be
	// reused.
	handle, err := os.FindProcess(p.PID)
	if err != nil {
		return fmt.Errorf("finding process %d: %w", p.PID, err)
	}
	defer handle.Release() //nolint:errcheck // nothing follows from it
	if !p.Running() {
		return nil
	}
	if err := handle.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signalling process %d: %w", p.PID, err)
	}
	return nil
}

// stop sends SIGTERM, after grace SIGKILL, and waits until the process has ended.
func (p Process) stop(ctx context.Context, grace time.Duration) error {
	if err := p.signal(syscall.SIGTERM); err != nil {
		return err
	}
	// A stopped process receives the first signal only once it continues.
	if err := p.signal(syscall.SIGCONT); err != nil {
		return err
	}
	if pollFor(ctx, grace, p.gone) == nil {
		return nil
	}
	if err := p.signal(syscall.SIGKILL); err != nil {
		return err
	}
	if err := poll(ctx, p.gone); err != nil {
		return fmt.Errorf("waiting for process %d to end: %w", p.PID, err)
	}
	return nil
}

func (p Process) gone(context.Context) (bool, error) {
	return !p.Running(), nil
}

// launch starts a command in its own session, without input and with its output appended to
// logFile, so that it outlives this program.
func launch(path string, arguments, environment []string, logFile string) (Process, error) {
	output, err := os.OpenFile(logFile, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600) //nolint:gosec // a path below the caller's folder
	if err != nil {
		return Process{}, fmt.Errorf("opening the log: %w", err)
	}
	defer output.Close() //nolint:errcheck // the child has its own
	// Not CommandContext: the child should outlive the caller's context.
	command := exec.Command(path, arguments...) //nolint:gosec,noctx // starting what build.sh built is the purpose; see above
	command.Dir = "/"
	command.Env = environment
	command.Stdout, command.Stderr = output, output
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err = command.Start(); err != nil {
		return Process{}, fmt.Errorf("starting %s: %w", filepath.Base(path), err)
	}
	// Read before the child is waited for: until then the kernel does not reuse its number.
	process, err := identify(command.Process.Pid)
	if err != nil {
		err = errors.Join(err, command.Process.Kill())
	}
	go command.Wait() //nolint:errcheck // only so that no zombie is left while this program lives
	return process, err
}

// pollInterval is short compared with everything that is waited for here.
const pollInterval = 50 * time.Millisecond

// poll calls done until it returns true or an error, or the context ends: then it returns the context's
// error.
func poll(ctx context.Context, done wait.ConditionWithContextFunc) error {
	return wait.PollUntilContextCancel(ctx, pollInterval, true, done)
}

// pollFor is [poll] for at most that time, which also ends the context of done.
func pollFor(ctx context.Context, atMost time.Duration, done wait.ConditionWithContextFunc) error {
	return wait.PollUntilContextTimeout(ctx, pollInterval, atMost, true, done)
}
