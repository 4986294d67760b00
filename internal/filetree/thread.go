package filetree

import (
	"context"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// The priorities of a walk: the lowest that still makes progress. The idle class of disk I/O would
// make none while another process fills the disk and keeps it busy, which is when the figures are
// needed.
const (
	niceness     = 10
	ioClassShift = 13
	ioBestEffort = 2
	ioLowest     = 7
	ioWhoThread  = 1
)

// beModest ties the goroutine to a thread and gives that a low priority. The thread
// ends with the goroutine, since it is never untied. Neither call needs a right; a
// kernel that refuses them leaves the walk at the priority of the process.
func beModest() {
	runtime.LockOSThread()
	_ = unix.Setpriority(unix.PRIO_PROCESS, 0, niceness) // on Linux 0 is this thread
	_, _, _ = unix.Syscall(unix.SYS_IOPRIO_SET, ioWhoThread, 0, ioBestEffort<<ioClassShift|ioLowest)
}

// pace keeps one thread within a share of a core. It measures what the thread took,
// in the kernel too, and sleeps for as long as that was too much.
type pace struct {
	share float64 // of a core, above 0
	// began and spent are the clocks at the moment from which the share is counted.
	began, spent time.Duration
}

// The share is kept over a few milliseconds, well below the 100 ms over which the kernel counts a
// container's CPU limit. Otherwise the kernel would throttle the rest of the process together with
// the walk.
const (
	paceSlack = 2 * time.Millisecond
	// paceCredit is how much CPU that was left unused, while the disk was waited for,
	// may be taken later.
	paceCredit = 5 * time.Millisecond
)

func newPace(share float64) *pace {
	return &pace{share: share, began: clock(unix.CLOCK_MONOTONIC), spent: clock(unix.CLOCK_THREAD_CPUTIME_ID)}
}

// pause sleeps when the thread is ahead of its share, until the context ends.
func (p *pace) pause(ctx context.Context) {
	wait := p.due(clock(unix.CLOCK_MONOTONIC), clock(unix.CLOCK_THREAD_CPUTIME_ID))
	if wait <= 0 {
		return
	}
	select {
	case <-ctx.Done():
	case <-time.After(wait): //nolint:forbidigo // a share of the time, by which nothing is decided
	}
}

// due returns how long to sleep at a time by which the thread has spent so much.
func (p *pace) due(now, spent time.Duration) time.Duration {
	ahead := (spent - p.spent) - time.Duration(float64(now-p.began)*p.share)
	if ahead < -paceCredit {
		p.began, p.spent = now, spent+paceCredit
	}
	if ahead < paceSlack {
		return 0
	}
	return time.Duration(float64(ahead) / p.share)
}

// clock reads a clock of the kernel; 0 when there is none, which paces nothing.
func clock(id int32) time.Duration {
	var t unix.Timespec
	_ = unix.ClockGettime(id, &t)
	return time.Duration(t.Nano())
}
