package agent

import (
	"fmt"
	"slices"
	"time"

	"github.com/evictd/evictd/internal/inflight"
	"github.com/evictd/evictd/internal/state"
	"github.com/evictd/evictd/internal/wording"
	"github.com/evictd/evictd/pkg/pressure"
)

// What a process gives back when it ends may wait on the kernel's per-CPU lists for seconds,
// where it is free and MemAvailable does not show it: of 700 MiB, 600 were on the lists at once,
// 450 after a second and 150 after seven (Linux 6.18, two CPUs, one run). Its cgroup has let go
// of the memory by then. Without this the next pod would be evicted for what the last one has
// given back.
//
// What the lists always keep does not count. Of the rest the growth counts, as memory in flight:
// since the eviction was decided, or since a pod was booked that others end. Each pod has its own
// window:
//
//   - It is open while the pod is relied on under hard pressure, and for a moment after its end
//     if that comes by then. Nothing opens it again: where pods end all the time, lists that stay
//     long would hold everything back.
//   - What the lists shrink by is shown. So the growth is counted from the least that they have
//     held since the window was opened.
//   - It survives a restart of the container.
//
// The lists are not read before the first window is opened.

// shownWithin is how long after a pod's end its memory may wait on the lists. They shrink by 8 MiB
// a second on each CPU (mm/page_alloc.c, decay_pcp_high): 1.2 GiB on two CPUs in this time.
const shownWithin = hardPatience

// lowersKept is how often what the lists have shrunk to is written down, at most.
const lowersKept = time.Second

// unshown is memory that is free and that MemAvailable does not show yet. The zero value has
// none.
type unshown struct {
	windows []listWindow // the oldest first
	// grown is by how many bytes the lists have grown, by the last update.
	grown int64
	// kept is when what they have shrunk to was last written down.
	kept time.Time
}

// listWindow is the time in which the growth of the lists counts for one pod.
type listWindow struct {
	// uid is the pod's; [undecided] is whoever is asked for in the decision that is carried out,
	// or in doubt.
	uid string
	// base is the least that was on the lists since the window was opened, in bytes.
	base  int64
	until time.Time
}

// undecided is the window of an eviction that was not answered yet.
const undecided = ""

// decide opens the window of whoever is asked for next, before that. Where an earlier request is
// in doubt its window stays: its pod may have ended already.
func (u *unshown) decide(now time.Time, inDoubt bool, read func() (int64, bool)) {
	if inDoubt {
		return
	}
	u.settle()
	u.open(undecided, now, now.Add(hardPatience), read)
}

// open opens a window of a pod that should be gone by the deadline. What cannot be read opens
// none.
func (u *unshown) open(uid string, now, deadline time.Time, read func() (int64, bool)) {
	if bytes, known := read(); known {
		u.add(listWindow{uid: uid, base: bytes, until: sooner(deadline, now.Add(hardPatience))})
	}
}

// accept makes the window of what was decided one of the pod that goes by it, and that should be
// gone by the deadline.
func (u *unshown) accept(uid string, now, deadline time.Time) {
	if at := u.of(undecided); at >= 0 {
		u.add(listWindow{uid: uid, base: u.windows[at].base, until: sooner(deadline, now.Add(hardPatience))})
	}
}

// add takes the place of the pod's window that is there, and keeps its base.
func (u *unshown) add(w listWindow) {
	if at := u.of(w.uid); at >= 0 {
		w.base = min(w.base, u.windows[at].base)
		u.windows = slices.Delete(u.windows, at, at+1)
	}
	u.windows = append(u.windows, w)
}

// settle ends the window of what was decided: everything is answered.
func (u *unshown) settle() { u.forget(undecided) }

// forget ends a pod's window: it is not leaving.
func (u *unshown) forget(uid string) {
	if at := u.of(uid); at >= 0 {
		u.windows = slices.Delete(u.windows, at, at+1)
	}
}

// end notes which bookings have ended. One that ended later than it was relied on opens
// nothing again: the lists have changed since. A dry run's has none.
func (u *unshown) end(now time.Time, ended []inflight.Booking) {
	for i := range ended {
		if at := u.of(ended[i].UID); at >= 0 && !ended[i].DryRun && !now.After(u.windows[at].until) {
			u.windows[at].until = now.Add(shownWithin)
		}
	}
}

// of returns the index of a pod's window; negative where it has none.
func (u *unshown) of(uid string) int {
	return slices.IndexFunc(u.windows, func(w listWindow) bool { return w.uid == uid })
}

// update reads the lists once for a tick under pressure, and reports whether they have shrunk
// further than was written down. What cannot be read counts for nothing.
func (u *unshown) update(now time.Time, read func() (int64, bool)) (shrunk bool) {
	u.grown = 0
	u.windows = slices.DeleteFunc(u.windows, func(w listWindow) bool { return w.uid != undecided && now.After(w.until) })
	if !slices.ContainsFunc(u.windows, func(w listWindow) bool { return !now.After(w.until) }) {
		return false
	}
	bytes, known := read()
	if !known {
		return false
	}
	for i := range u.windows {
		w := &u.windows[i]
		shrunk, w.base = shrunk || bytes < w.base, min(w.base, bytes)
		if !now.After(w.until) {
			u.grown = max(u.grown, bytes-w.base)
		}
	}
	if !shrunk || now.Sub(u.kept) < lowersKept {
		return false
	}
	u.kept = now
	return true
}

// export returns the windows as values.
func (u *unshown) export() []state.OnCPULists {
	kept := make([]state.OnCPULists, 0, len(u.windows))
	for _, w := range u.windows {
		kept = append(kept, state.OnCPULists{UID: w.uid, Base: w.base, Expires: w.until})
	}
	return kept
}

// restore puts back the windows that were open.
func (u *unshown) restore(kept []state.OnCPULists, now time.Time) {
	for _, k := range kept {
		if now.Before(k.Expires) {
			u.add(listWindow{uid: k.UID, base: k.Base, until: sooner(k.Expires, now.Add(hardPatience))})
		}
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
		a.options.Recorder.ReadError(string(pressure.ProcSource), err)
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

// freeAlready says how much of what is missing is free and not shown yet; "" when nothing is.
func (a *Agent) freeAlready(p *pressure.Pressure) string {
	free := a.unshownOf(p)
	if free == 0 {
		return ""
	}
	return fmt.Sprintf("; %s of it is free on the kernel's per-CPU lists, which MemAvailable does not count",
		wording.Amount(p.Threshold.Signal, free))
}
