package decide

import (
	"time"

	"github.com/evictd/evictd/pkg/pressure"
)

// Ended is a victim that evictd evicted and that has ended.
type Ended struct {
	// Victim is how it was booked; Victim.Signal is what it was evicted for.
	Victim Victim
	// Time is when it was found to have ended: the API server does not list it any more, and its
	// cgroup does not exist.
	Time time.Time
	// Signal is what it was evicted for.
	Signal pressure.Signal
	// Expected is what it was expected to free of the signal when it was accepted, in
	// the signal's unit; nil where that was not known.
	Expected *int64
	// Reclaim is what its end freed; nil when that is not known.
	Reclaim *Reclaimed
}

// Took returns how long it took, from its acceptance.
func (e *Ended) Took() time.Duration { return e.Time.Sub(e.Victim.Accepted) }

// Overran reports whether it ended after its deadline.
func (e *Ended) Overran() bool { return e.Time.After(e.Victim.Deadline) }

// Reclaimed compares what a victim's end should have freed with what the node got back,
// both in the signal's unit.
type Reclaimed struct {
	// Expected is what the victim held by the last measurement before it began to end.
	Expected int64
	// Actual is by how much what is available and what the other pods hold, together, grew from
	// that measurement to its end. It may be negative: a process outside the pods took more
	// meanwhile.
	Actual int64
}
