package inflight

import (
	"slices"
	"time"
)

// Memory on the kernel's per-CPU lists counts as in flight: see
// docs/adr/0007-memory-on-per-cpu-lists-is-in-flight.md.

// shownWithin is how long after a pod's end its memory may wait on the lists. They shrink by 8 MiB
// a second on each CPU (mm/page_alloc.c, decay_pcp_high): 1.2 GiB on two CPUs in this time.
const shownWithin = HardPatience

// lowersKept is how often what the lists have shrunk to is written down, at most.
const lowersKept = time.Second

// ReadLists reads how many bytes of free memory are on the lists beyond what they always keep;
// false where that cannot be read, and nothing counts then.
type ReadLists func() (bytes int64, known bool)

// cpuLists is memory that is free and that MemAvailable does not show yet. The zero value has
// none.
type cpuLists struct {
	windows []listWindow // the oldest first
	// grown is by how many bytes the lists have grown, by the last update.
	grown int64
	// kept is when what they have shrunk to was last written down.
	kept time.Time
}

// listWindow is the time in which the growth of the lists counts for one pod.
type listWindow struct {
	// uid is the pod's; [undecided] stands for the pod of the plan that is carried out, or of a
	// request in doubt.
	uid string
	// base is the least that was on the lists since the window was opened, in bytes.
	base  int64
	until time.Time
}

// undecided is the window of an eviction that was not answered yet.
const undecided = ""

// Request opens the window of the pod that is evicted next, before its request is sent. Where an
// earlier request is in doubt its window stays: its pod may have ended already.
func (t *Tracker) Request(now time.Time, inDoubt bool, read ReadLists) {
	if inDoubt {
		return
	}
	t.Answered()
	t.lists.open(undecided, now, now.Add(HardPatience), read)
}

// Answered ends the window of what was requested: no request is in doubt.
func (t *Tracker) Answered() { t.lists.forget(undecided) }

// ObserveLists reads the lists once for a tick under pressure, and reports whether they have
// shrunk further than was written down.
func (t *Tracker) ObserveLists(now time.Time, read ReadLists) (shrunk bool) {
	return t.lists.update(now, read)
}

// FreeOnLists returns how many bytes are free and not shown in MemAvailable, by the last
// [Tracker.ObserveLists].
func (t *Tracker) FreeOnLists() int64 { return t.lists.grown }

// open opens a window of a pod that should have ended by the deadline. Without a reading it opens
// none.
func (c *cpuLists) open(uid string, now, deadline time.Time, read ReadLists) {
	if bytes, known := read(); known {
		c.add(listWindow{uid: uid, base: bytes, until: earlier(deadline, now.Add(HardPatience))})
	}
}

// accept assigns the window of a decision to the pod that the decision evicts, and that should have
// ended by the deadline.
func (c *cpuLists) accept(uid string, now, deadline time.Time) {
	if at := c.of(undecided); at >= 0 {
		c.add(listWindow{uid: uid, base: c.windows[at].base, until: earlier(deadline, now.Add(HardPatience))})
	}
}

// add takes the place of the pod's window that is there, and keeps its base.
func (c *cpuLists) add(w listWindow) {
	if at := c.of(w.uid); at >= 0 {
		w.base = min(w.base, c.windows[at].base)
		c.windows = slices.Delete(c.windows, at, at+1)
	}
	c.windows = append(c.windows, w)
}

// forget ends a pod's window: it is not leaving.
func (c *cpuLists) forget(uid string) {
	if at := c.of(uid); at >= 0 {
		c.windows = slices.Delete(c.windows, at, at+1)
	}
}

// end records which bookings have ended. A booking that ended after it was relied on opens no
// window again, because the lists have changed since. A dry run's has none.
func (c *cpuLists) end(now time.Time, ended []Booking) {
	for i := range ended {
		if at := c.of(ended[i].UID); at >= 0 && !ended[i].DryRun && !now.After(c.windows[at].until) {
			c.windows[at].until = now.Add(shownWithin)
		}
	}
}

// of returns the index of a pod's window; negative where it has none.
func (c *cpuLists) of(uid string) int {
	return slices.IndexFunc(c.windows, func(w listWindow) bool { return w.uid == uid })
}

// update reads the lists once for a tick under pressure, and reports whether they have shrunk
// further than was recorded. A failed reading is ignored.
func (c *cpuLists) update(now time.Time, read ReadLists) (shrunk bool) {
	c.grown = 0
	c.windows = slices.DeleteFunc(c.windows, func(w listWindow) bool { return w.uid != undecided && now.After(w.until) })
	if !slices.ContainsFunc(c.windows, func(w listWindow) bool { return !now.After(w.until) }) {
		return false
	}
	bytes, known := read()
	if !known {
		return false
	}
	for i := range c.windows {
		w := &c.windows[i]
		shrunk, w.base = shrunk || bytes < w.base, min(w.base, bytes)
		if !now.After(w.until) {
			c.grown = max(c.grown, bytes-w.base)
		}
	}
	if !shrunk || now.Sub(c.kept) < lowersKept {
		return false
	}
	c.kept = now
	return true
}

// export returns the windows as values.
func (c *cpuLists) export() []OnCPULists {
	kept := make([]OnCPULists, 0, len(c.windows))
	for _, w := range c.windows {
		kept = append(kept, OnCPULists{UID: w.uid, Base: w.base, Expires: w.until})
	}
	return kept
}

// restore puts back the windows that were open.
func (c *cpuLists) restore(kept []OnCPULists, now time.Time) {
	for _, k := range kept {
		if now.Before(k.Expires) {
			c.add(listWindow{uid: k.UID, base: k.Base, until: earlier(k.Expires, now.Add(HardPatience))})
		}
	}
}
