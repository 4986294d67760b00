package agent

import (
	"time"

	"github.com/evictd/evictd/pkg/pressure"
)

// What a process gives back when it ends may wait on the kernel's per-CPU lists for seconds,
// where it is free and MemAvailable does not show it: of 700 MiB, 600 were there a second after
// the end and 150 after seven (Linux 6.18, two CPUs). Its cgroup has let go of the memory by
// then. Without this the next pod would be evicted for what the last one has given back.
//
// The lists are never empty, so only their growth since the eviction was decided counts, as
// memory in flight, while the victim is relied on under hard pressure and for a moment after its
// end. Nothing opens that window but an own victim, and nothing opens it again. They are not
// read before the first decision to evict.

// shownWithin is how long after a victim's end its memory may wait on the lists: they shrink by
// an eighth a second.
const shownWithin = 15 * time.Second

// unshown is memory that is free and that MemAvailable does not show yet. The zero value has
// none.
type unshown struct {
	// known says that base is: the bytes on the lists when the eviction was decided.
	known bool
	base  int64
	// until is when what is on the lists counts no more; the zero time before a victim was
	// accepted.
	until time.Time
	// grown is by how many bytes the lists have grown, by the last update.
	grown int64
}

// decide notes what is on the lists before an eviction is sent. What an earlier victim has
// given back meanwhile is left out of it.
func (u *unshown) decide(now time.Time, read func() (int64, bool)) {
	if now.After(u.until) {
		u.base, u.known = read()
	}
}

// accept notes that an eviction was accepted of a pod that should be gone by the deadline.
func (u *unshown) accept(now, deadline time.Time) {
	if limit := now.Add(hardPatience); deadline.After(limit) {
		deadline = limit
	}
	if deadline.After(u.until) {
		u.until = deadline
	}
}

// end notes that an own victim has ended. One that ended later than it was relied on opens
// nothing again: the lists have changed since.
func (u *unshown) end(now time.Time) {
	if !now.After(u.until) {
		u.until = now.Add(shownWithin)
	}
}

// update reads the lists once for a tick under pressure. What cannot be read counts for nothing.
func (u *unshown) update(now time.Time, read func() (int64, bool)) {
	u.grown = 0
	if !u.known || now.After(u.until) {
		return
	}
	if bytes, known := read(); known {
		u.grown = max(0, bytes-u.base)
	}
}

// readLists reads the kernel's per-CPU lists; false where that cannot be done, and nothing
// counts then.
func (a *Agent) readLists() (int64, bool) {
	if a.options.FreeOnCPULists == nil {
		return 0, false
	}
	bytes, err := a.options.FreeOnCPULists()
	if err != nil {
		a.options.Recorder.ReadError(SourceProc, err)
		return 0, false
	}
	return bytes, true
}

// unshownOf returns how much of the signal is free and not shown yet.
func (a *Agent) unshownOf(p *pressure.Pressure) int64 {
	if p.Threshold.Signal != pressure.MemoryAvailable || a.policy.MemoryAvailable != pressure.Kernel {
		return 0
	}
	return a.unshown.grown
}
