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

	"github.com/shirou/gopsutil/v3/process"
	"golang.org/x/sys/unix"
)

// largestCount is how many processes are reported.
const largestCount = 3

// Process is a process outside the pods.
type Process struct {
	PID int
	// Name is the kernel's name of it: its file's or what it gave itself, 15 bytes at most. It is
	// another user's text, made printable. Command lines are never read: they hold secrets, and
	// reading one waits for a lock of the process that a node short of memory keeps for long.
	Name string
	// Unit is the systemd unit or the container that it belongs to, from its cgroup; "" where the
	// cgroup is the root.
	Unit string
	// RSS is its resident memory in bytes, shared pages included.
	RSS int64
}

// Processes returns the processes outside the pods that have the most resident memory, the largest
// first, at most three. A process that ends meanwhile is skipped, and one without resident memory,
// such as the kernel's own threads, is not included. Processes that exist and could not be read are
// left out too and reported by an error, with which the others are still returned.
func (r *Reader) Processes(ctx context.Context) ([]Process, error) {
	found, err := ask(ctx, r, r.processes, r.largest)
	if err == nil {
		err = found.unread
	}
	if err != nil {
		err = fmt.Errorf("reading which processes use the memory: %w", err)
	}
	return found.largest, err
}

// outside is what was found.
type outside struct {
	largest []Process // the largest first
	unread  error     // why there may be larger ones: the first process that could not be read
}

func (r *Reader) largest(ctx context.Context) (outside, error) {
	pids, err := process.PidsWithContext(ctx)
	if err != nil {
		return outside{}, err
	}
	groups, err := r.groups()
	if err != nil {
		return outside{}, err
	}
	var found outside
	for _, pid := range pids {
		if err := ctx.Err(); err != nil {
			return outside{}, err
		}
		found.add(r.read(ctx, pid, groups, found.least()))
	}
	if len(found.largest) == 0 && found.unread == nil {
		return outside{}, fmt.Errorf("%w: of %d processes none is outside the pods", ErrNoReading, len(pids))
	}
	return found, nil
}

// least is the resident memory that a process must have more than.
func (o *outside) least() int64 {
	if len(o.largest) < largestCount {
		return 0
	}
	return o.largest[largestCount-1].RSS
}

// add takes a process in; one without resident memory is none.
func (o *outside) add(p Process, err error) {
	switch {
	case errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ESRCH): // it has ended
	case err != nil:
		o.unread = cmp.Or(o.unread, err)
	case p.RSS > 0:
		o.largest = append(o.largest, p)
		slices.SortStableFunc(o.largest, func(a, b Process) int { return cmp.Compare(b.RSS, a.RSS) })
		o.largest = o.largest[:min(len(o.largest), largestCount)]
	}
}

// read returns a process outside the pods that has more than so much resident memory, and a
// zero one for every other.
func (r *Reader) read(ctx context.Context, pid int32, groups namespace, least int64) (Process, error) {
	// Not process.NewProcess: where /proc is no mount of its own it sends a signal to find
	// out whether there is such a process, and it works out when it was started.
	memory, err := (&process.Process{Pid: pid}).MemoryInfoWithContext(ctx)
	if err != nil {
		return Process{}, err
	}
	if memory.RSS > math.MaxInt64 {
		return Process{}, fmt.Errorf("%w: process %d has %d bytes", ErrNoReading, pid, memory.RSS)
	}
	p := Process{PID: int(pid), RSS: int64(memory.RSS)}
	if p.RSS <= least {
		return Process{}, nil
	}
	content, err := r.readOf(pid, "cgroup")
	if err != nil {
		return Process{}, err
	}
	accounts, systemd, err := groupsIn(content)
	if err != nil {
		return Process{}, fmt.Errorf("process %d: %w", pid, err)
	}
	if groups.inPods(accounts) {
		return Process{}, nil
	}
	p.Unit = cmp.Or(unitOf(accounts), unitOf(systemd))
	name, err := r.readOf(pid, "comm")
	if err != nil {
		return Process{}, err
	}
	p.Name = clean(strings.TrimSuffix(name, "\n"))
	return p, nil
}

func (r *Reader) readOf(pid int32, file string) (string, error) {
	content, err := os.ReadFile(r.path("proc", strconv.Itoa(int(pid)), file))
	return string(content), err
}
