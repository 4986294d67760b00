package cooldown

import (
	"fmt"
	"maps"
	"time"

	"github.com/evictd/evictd/pkg/rank"
)

// owners records the owners whose pods come back to the node that evicted one of them, and for how
// long no pod of theirs should be evicted: evicting a pod that comes straight back frees nothing.
type owners struct{ known map[string]returns }

func newOwners() *owners { return &owners{known: map[string]returns{}} }

// The first return costs firstOwnerBackOff, each further one twice as long, up to
// longestOwnerBackOff. An owner is forgotten when none of its pods was evicted for ownerMemory.
// That is as long again as the longest back-off; otherwise the end of the back-off would end the
// memory too.
const (
	firstOwnerBackOff   = time.Minute
	longestOwnerBackOff = time.Hour
	ownerMemory         = 2 * longestOwnerBackOff
)

// returns is what is recorded of an owner since the first of its pods was evicted.
type returns struct {
	// newest is the creation time of the youngest of its pods on the node when it was set: at the
	// first eviction, and again when more pods had come than were evicted. A younger pod has come
	// after that.
	newest time.Time
	lost   int // pods evicted since newest was set
	count  int // pods that had come since and were evicted
	until  time.Time
	last   time.Time // when one of its pods was last evicted
	dryRun bool      // a dry run has a part in it
}

// Victim is an accepted eviction as [Tracker.Accept] counts it.
type Victim struct {
	// Owner is the UID of the controller that created the pod; "" for a bare pod, which is not
	// recreated.
	Owner string
	// Created is when the pod was created, Newest when the youngest pod of the owner on the node
	// was created. Both are the API server's times. A difference of an hour between its clock and
	// the node's must not make a pod count as one that came back.
	Created, Newest time.Time
	// Here is when each of the owner's pods on the node was created, the victim's included; they
	// are neither terminating nor finished. Nil counts as none.
	Here []time.Time
	// DryRun says that nothing happened to it.
	DryRun bool
}

// note counts an accepted eviction. A pod that was already on the node when the first pod of its
// owner was evicted is no return. Nor is a pod of a workload that grows: when more pods have come
// than were evicted, an autoscaler has created them, and all pods on the node count as having been
// there.
func (h *owners) note(v Victim, now time.Time) {
	h.forget(now)
	if v.Owner == "" {
		return
	}
	r, known := h.known[v.Owner]
	if !known || v.younger(r.newest) > r.lost {
		r.newest, r.lost = v.Newest, 0
	}
	r.lost++
	if v.Created.After(r.newest) {
		r.count++
		r.until = now.Add(span{firstOwnerBackOff, longestOwnerBackOff}.after(r.count - 1))
	}
	r.last, r.dryRun = now, r.dryRun || v.DryRun
	h.known[v.Owner] = r
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

func (h *owners) forget(now time.Time) {
	maps.DeleteFunc(h.known, func(_ string, r returns) bool { return now.Sub(r.last) >= ownerMemory })
}

// forgetDryRuns drops the owners whose pods a dry run evicted: no pod came back because of it.
func (h *owners) forgetDryRuns() {
	maps.DeleteFunc(h.known, func(_ string, r returns) bool { return r.dryRun })
}

// waits returns why no pod of the owner (its UID) may be evicted for now.
func (h *owners) waits(owner string, now time.Time) (Reason, bool) {
	r := h.known[owner]
	if !now.Before(r.until) {
		return Reason{}, false
	}
	return Reason{Kind: OwnerBackOff, Until: r.until, Detail: fmt.Sprintf(
		"%d of its owner's pods came back to this node and were evicted again: its pods stay until %s, another %v",
		r.count, r.until.UTC().Format(time.RFC3339), r.until.Sub(now).Round(time.Second))}, true
}

// waiting returns how many owners are in back-off.
func (h *owners) waiting(now time.Time) int {
	n := 0
	for _, r := range h.known {
		if now.Before(r.until) {
			n++
		}
	}
	return n
}

// VictimOf returns a pod of a ranking as it counts once it is evicted.
func VictimOf(ranking *rank.Ranking, pod *rank.Pod, dryRun bool) Victim {
	v := Victim{Owner: pod.OwnerUID, Created: pod.Created, Newest: pod.Created, DryRun: dryRun}
	for _, entries := range [][]rank.Entry{ranking.Candidates, ranking.Protected} {
		for i := range entries {
			sibling := entries[i].Pod
			if sibling.OwnerUID != pod.OwnerUID {
				continue
			}
			v.Newest = later(v.Newest, sibling.Created)
			if !sibling.Marks.Terminating && !sibling.Marks.Finished {
				v.Here = append(v.Here, sibling.Created)
			}
		}
	}
	return v
}
