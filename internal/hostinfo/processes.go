package hostinfo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/shirou/gopsutil/v3/common"
	"github.com/shirou/gopsutil/v3/process"
	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/internal/decide"
)

// largestCount is how many processes are reported.
const largestCount = 3

// outside returns the processes outside the pods that have the most resident memory, the largest
// first, at most three. A process that ends meanwhile is skipped, and one without resident memory,
// such as the kernel's own threads, is not included. Where one that exists could not be read, nothing is
// known.
func (r *Reader) outside(ctx context.Context) (largest []decide.Process, err error) {
	defer func() {
		if fault := recover(); fault != nil { // the library takes fields of a line that may not be there
			err = fmt.Errorf("a line of /proc is too short: %v", fault)
		}
		if err != nil {
			largest, err = nil, fmt.Errorf("reading which processes use the memory: %w", err)
		}
	}()
	// The library would read the environment otherwise, which the container's configuration sets.
	ctx = context.WithValue(ctx, common.EnvKey, common.EnvMap{common.HostProcEnvKey: r.path("proc")})
	pids, err := process.PidsWithContext(ctx)
	if err != nil {
		return nil, err
	}
	for _, pid := range pids {
		least := int64(0)
		if len(largest) == largestCount {
			least = largest[largestCount-1].RSS
		}
		switch p, err := r.read(ctx, pid, least); {
		case errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ESRCH): // it has ended
		case err != nil:
			return nil, err
		case p.RSS > 0:
			largest = append(largest, p)
			slices.SortStableFunc(largest, func(a, b decide.Process) int { return cmp.Compare(b.RSS, a.RSS) })
			largest = largest[:min(len(largest), largestCount)]
		}
	}
	if len(largest) == 0 {
		return nil, fmt.Errorf("of %d processes none is outside the pods", len(pids))
	}
	return largest, nil
}

// read returns a process outside the pods that has more resident memory than least, in bytes, and a
// zero one for every other. Command lines are never read: they hold secrets, and reading one waits for a
// lock of the process that a node short of memory keeps for long.
func (r *Reader) read(ctx context.Context, pid int32, least int64) (decide.Process, error) {
	// Not process.NewProcess: where /proc is no mount of its own it sends a signal to find
	// out whether there is such a process, and it works out when it was started.
	memory, err := (&process.Process{Pid: pid}).MemoryInfoWithContext(ctx)
	if err != nil {
		return decide.Process{}, err
	}
	if memory.RSS > math.MaxInt64 {
		return decide.Process{}, fmt.Errorf("process %d has %d bytes", pid, memory.RSS)
	}
	p := decide.Process{RSS: int64(memory.RSS)}
	if p.RSS <= least {
		return decide.Process{}, nil
	}
	dir := strconv.Itoa(int(pid))
	content, err := r.readOf(dir, "cgroup")
	if err != nil {
		return decide.Process{}, err
	}
	unit, inPod, err := unitOf(content)
	if err != nil {
		return decide.Process{}, fmt.Errorf("process %d: %w", pid, err)
	}
	if own, _ := r.readOf("self", "cgroup"); inPod || content == own { // evictd's container, where it has one
		return decide.Process{}, nil
	}
	p.Unit = unit
	name, err := r.readOf(dir, "comm")
	p.Name = clean(strings.TrimSuffix(name, "\n"))
	return p, err
}

func (r *Reader) readOf(pid, file string) (string, error) {
	content, err := os.ReadFile(r.path("proc", pid, file))
	return string(content), err
}
