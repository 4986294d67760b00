package cooldown

import (
	"fmt"
	"maps"
	"time"
)

// HoldOff remembers the owners whose pods come back to the node that evicted one of
// them, and for how long nobody of theirs should go: a pod that comes straight back has
// freed nothing, and has done its work in vain. It is not safe for concurrent use.
type HoldOff struct{ owners map[string]returns }

// NewHoldOff returns one that remembers nobody.
func NewHoldOff() *HoldOff { return &HoldOff{owners: map[string]returns{}} }

// The first return costs firstHoldOff, each further one twice as long, up to
// longestHoldOff. An owner is forgotten when none of its pods has gone for
// holdOffMemory: as long again as the longest hold-off, or its end would be the end of
// the memory too.
const (
	firstHoldOff   = time.Minute
	longestHoldOff = time.Hour
	holdOffMemory  = 2 * longestHoldOff
)

// returns is what is remembered of an owner since the first of its pods went.
type returns struct {
	// newest is when the youngest of its pods was made that were here then, or when more
	// pods than it has lost had come since. A younger one has come after that.
	newest time.Time
	lost   int // pods that went since newest was set
	count  int // pods that had come since and were evicted
	until  time.Time
	last   time.Time // when one of its pods went last
	dryRun bool      // a dry run has a part in it
}

// Victim is an accepted eviction as [HoldOff.Note] counts it.
type Victim struct {
	// Owner is the UID of the controller that made the pod; "" for a bare pod, which
	// nobody makes again.
	Owner string
	// Created is when the pod was made, Newest when the youngest pod of the owner on
	// the node was made. Both are the API server's: an hour between its clock and the
	// node's makes nobody come back.
	Created, Newest time.Time
	// Here is when each of the owner's pods was made that live on the node, the victim among
	// them: neither terminating nor finished. Nil counts as none.
	Here []time.Time
	// DryRun says that nothing happened to it.
	DryRun bool
}

// Note counts an accepted eviction. A pod that was there all along, when the first one of
// its owner went, is no return. Nor is one of a workload that grows: where more pods have
// come than went, an autoscaler has made them, and all that are here count as having been
// here.
func (h *HoldOff) Note(v Victim, now time.Time) {
	h.forget(now)
	if v.Owner == "" {
		return
	}
	r, known := h.owners[v.Owner]
	if !known || v.younger(r.newest) > r.lost {
		r.newest, r.lost = v.Newest, 0
	}
	r.lost++
	if v.Created.After(r.newest) {
		r.count++
		r.until = now.Add(span{firstHoldOff, longestHoldOff}.after(r.count - 1))
	}
	r.last, r.dryRun = now, r.dryRun || v.DryRun
	h.owners[v.Owner] = r
}

// younger returns how many of the owner's pods here were made after that time.
func (v *Victim) younger(than time.Time) int {
	n := 0
	for _, created := range v.Here {
		if created.After(than) {
			n++
		}
	}
	return n
}

func (h *HoldOff) forget(now time.Time) {
	maps.DeleteFunc(h.owners, func(_ string, r returns) bool { return now.Sub(r.last) >= holdOffMemory })
}

// ForgetDryRuns drops the owners of whom a dry run has evicted pods: nobody came back
// because of it.
func (h *HoldOff) ForgetDryRuns() {
	maps.DeleteFunc(h.owners, func(_ string, r returns) bool { return r.dryRun })
}

// Owner returns one sentence while the owner (its UID) is held off, "" when its pods may
// go.
func (h *HoldOff) Owner(owner string, now time.Time) string {
	r := h.owners[owner]
	if !now.Before(r.until) {
		return ""
	}
	return fmt.Sprintf("%d of its owner's pods came back to this node and were evicted again: held off until %s, another %v",
		r.count, r.until.UTC().Format(time.RFC3339), r.until.Sub(now).Round(time.Second))
}

// Owners returns how many owners are held off.
func (h *HoldOff) Owners(now time.Time) int {
	n := 0
	for _, r := range h.owners {
		if now.Before(r.until) {
			n++
		}
	}
	return n
}
