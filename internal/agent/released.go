package agent

import (
	"time"

	"github.com/evictd/evictd/internal/inflight"
	"github.com/evictd/evictd/internal/measure"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/usage"
)

// What a victim's end gives back can be measured in two wrong ways. That its cgroup held
// so much and then nothing is exact, and says nothing of the node: pages that it shared
// live on, and its page tables and sockets were never in its books. That the node has so
// much more available than before is what everybody else did in the meantime, too.
//
// So the books of the whole node are closed twice: what is available, and what the other
// pods hold, in the signal's measure. The one must grow by what the victim frees; what
// the others took or gave back moves from the one to the other and leaves the sum as it
// is. What remains in the difference besides the victim are processes outside of pods
// and the kernel, so the first reading is the last one at which the victim had not
// begun to end, and all of them are made at least once a second while a victim is on its
// way.
//
// For disks nobody can say what the others hold at a given moment, and of a stall nobody
// knows what anybody's part is: these victims' release is not known.

// followEvery is how often the books are read while victims are on their way.
const followEvery = time.Second

// Ended is a victim that evictd evicted and that has gone.
type Ended struct {
	// Booking is how it was booked; Booking.Signal is what it was evicted for.
	Booking inflight.Booking
	// Time is when it was found to have gone: the API server does not list it any more,
	// and its cgroup is not there.
	Time time.Time
	// Signal is what it was evicted for.
	Signal pressure.Signal
	// Expected is what it was expected to free of the signal when it was accepted, in
	// the signal's unit; nil where that was not known.
	Expected *int64
	// Release is what came of it; nil when that is not known.
	Release *Release
}

// Took returns how long it took, from its acceptance.
func (e *Ended) Took() time.Duration { return e.Time.Sub(e.Booking.Accepted) }

// Overran reports whether it ended after its deadline.
func (e *Ended) Overran() bool { return e.Time.After(e.Booking.Deadline) }

// Release compares what a victim's end should have freed with what the node got back,
// both in the signal's unit.
type Release struct {
	// Expected is what the victim held by the last measurement before it began to end.
	Expected int64
	// Actual is by how much what is available and what the other pods hold, together,
	// grew from that measurement to its end. It may be negative: a process outside of
	// pods took more meanwhile.
	Actual int64
}

// victim is one that evictd evicted, as far as its release is followed.
type victim struct {
	signal   pressure.Signal
	expected *int64 // when it was accepted; nil where that is not known
	// The books at the last measurement before it began to end; known is false before
	// the first.
	known      bool
	held, rest int64
}

// followed are the victims whose release is followed, by UID.
type followed struct {
	victims map[string]*victim
	last    time.Time // when the books were read last
}

// restart drops the readings, when they cannot be compared with those that follow.
func (f *followed) restart() {
	for _, v := range f.victims {
		v.known = false
	}
}

// follow begins to follow a victim that was accepted.
func (a *Agent) follow(uid string, signal pressure.Signal, expected pressure.Amounts) {
	if a.followed.victims[uid] != nil {
		return // asked for again
	}
	v := &victim{signal: signal}
	if amount, known := expected.Of(signal); known && signal.Reclaim() != pressure.ReclaimUnknown {
		v.expected = &amount
	}
	a.followed.victims[uid] = v
	a.followed.last = time.Time{} // at once, before it begins to end
}

// followVictims closes the books of those that have ended and reads those of the others.
func (a *Agent) followVictims(now time.Time, ended []inflight.Booking) {
	f := &a.followed
	gone := 0
	for i := range ended {
		if f.victims[ended[i].UID] != nil {
			gone++
		}
	}
	if len(f.victims) == 0 || gone == 0 && now.Sub(f.last) < followEvery {
		return
	}
	f.last = now
	pods, sample := a.readBooks()
	for i := range ended {
		if v := f.victims[ended[i].UID]; v != nil {
			delete(f.victims, ended[i].UID)
			a.options.Recorder.VictimEnded(&Ended{
				Booking: ended[i], Time: now, Signal: v.signal, Expected: v.expected,
				Release: v.release(a.booksOf(v.signal, sample, pods)),
			})
		}
	}
	for uid, v := range f.victims {
		v.note(uid, a.booksOf(v.signal, sample, pods))
	}
}

// readBooks reads the cgroups of all pods and, right after them, the node: a victim that
// takes a gigabyte a second would otherwise be seen at two sizes. The zero sample knows
// nothing; it is what there is where a pod could not be read.
func (a *Agent) readBooks() (pods []usage.Pod, sample pressure.Sample) {
	pods, err := a.measurer.Collect()
	if err != nil {
		return pods, pressure.Sample{}
	}
	return pods, a.options.Sampler.Sample(a.options.Clock.Now())
}

// books are what is available of a signal and what all pods hold of it, together and
// each; the zero value is not known.
type books struct {
	known bool
	sum   int64
	held  map[string]int64
}

// booksOf closes the books of a signal.
func (a *Agent) booksOf(signal pressure.Signal, sample pressure.Sample, pods []usage.Pod) books {
	seen := sample.Of(signal)
	if signal.Reclaim() != pressure.ReclaimMeasured || seen.State != pressure.Known {
		return books{}
	}
	b := books{known: true, sum: seen.Available, held: make(map[string]int64, len(pods))}
	for i := range pods {
		held, known := measure.Expected(&pods[i], a.policy.MemoryAvailable).Of(signal)
		if !known {
			return books{} // tasks that could not be read
		}
		b.sum += held
		b.held[pods[i].UID] = held
	}
	return b
}

// note keeps the books while the victim holds at least half of what it held when it was
// accepted: what is left after that is the end of what has begun to end.
func (v *victim) note(uid string, now books) {
	held := now.held[uid]
	if v.expected == nil || !now.known || held == 0 || v.known && held < *v.expected/2 {
		return
	}
	v.known, v.held, v.rest = true, held, now.sum-held
}

// release compares the books at its end with those before it.
func (v *victim) release(now books) *Release {
	if !v.known || !now.known {
		return nil
	}
	return &Release{Expected: v.held, Actual: now.sum - v.rest}
}
