package inflight

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/pkg/evict"
	"github.com/evictd/evictd/pkg/pressure"
)

// Tracker follows the pods that are in flight: what their ends should free, and when they should
// have ended. It is not safe for concurrent use.
type Tracker struct {
	bookings  map[string]decide.Victim
	lastEnd   time.Time
	returning returning
	reclaims  reclaims
	simulated Simulated
}

// New returns a tracker of no pods.
func New() *Tracker {
	return &Tracker{bookings: map[string]decide.Victim{}}
}

// Accept takes a pod whose eviction was accepted at b.Accepted, or that a request found deleted.
func (t *Tracker) Accept(b decide.Victim) {
	t.reclaims.follow(&b)
	t.Book(b)
}

// Observe takes which pods are still there, and returns the bookings that have ended, the
// oldest first. Present reports whether a pod is listed or its cgroup is there.
func (t *Tracker) Observe(now time.Time, present func(uid string) bool) []decide.Victim {
	ended := t.settle(now, present)
	t.simulated.observe(ended)
	return ended
}

// Book records a victim. A victim that is booked already keeps its first booking, so that seeing it
// again does not move its deadline, and only updates what it should still free, as [Tracker.Expect]
// does. But a victim that is really in flight replaces one that a dry run simulated, and an
// eviction with a response replaces what was observed of the pod before.
func (t *Tracker) Book(b decide.Victim) {
	before, booked := t.bookings[b.UID]
	if !booked || before.DryRun && !b.DryRun || before.Signal == "" && b.Signal != "" {
		b.Before = t.returning.seen
		t.bookings[b.UID] = b
		return
	}
	t.Expect(b.UID, b.Expected)
}

// Expect records what a booked victim should still free by a newer measurement. A process that has
// ended frees nothing any more, and one that keeps growing while its preStop hook runs frees more;
// signals that the measurement does not have keep their figures. A pod that is not booked is
// ignored.
func (t *Tracker) Expect(uid string, expected pressure.Amounts) {
	t.amend(uid, func(b *decide.Victim) {
		b.Expected, b.Before, b.Highest = b.Expected.Updated(expected), t.returning.seen, t.returning.seen
	})
}

// Escalate takes the answer to a request that a victim should end within a shorter grace period,
// in seconds. Where it was accepted the victim is relied on again, to the new deadline. A pod that
// is not booked is ignored.
func (t *Tracker) Escalate(uid string, outcome evict.Outcome, graceSeconds int64, deadline, now time.Time) {
	t.amend(uid, func(b *decide.Victim) {
		b.EscalationsSent++
		switch {
		case outcome.Next() == evict.Done:
			b.Escalated, b.GraceSeconds, b.Deadline = now, graceSeconds, deadline
		case outcome.Next() == evict.NextCandidate, outcome == evict.Gone:
			b.EscalationsSent = decide.EscalationTries
		}
	})
}

// amend changes a booking. A pod that is not booked is ignored.
func (t *Tracker) amend(uid string, change func(*decide.Victim)) {
	if b, booked := t.bookings[uid]; booked {
		change(&b)
		t.bookings[uid] = b
	}
}

// Booked reports whether the pod is in flight as far as the ledger knows.
func (t *Tracker) Booked(uid string) bool {
	_, booked := t.bookings[uid]
	return booked
}

// Own reports whether the pod is in flight because evictd evicted it.
func (t *Tracker) Own(uid string) bool {
	b := t.bookings[uid]
	return b.Signal != "" && !b.DryRun
}

// settle ends the bookings whose pods are not present any more and returns them. A dry run's
// booking also ends at its deadline, because its pod would have ended by then. So does the booking
// of a pod which admission moves away: one that is still there then is not terminating.
func (t *Tracker) settle(now time.Time, present func(uid string) bool) []decide.Victim {
	var ended []decide.Victim
	for uid, b := range t.bookings {
		if present(uid) && (!b.DryRun && !b.Evacuating || !now.After(b.Deadline)) {
			continue
		}
		delete(t.bookings, uid)
		ended = append(ended, b)
		if b.Signal != "" {
			t.lastEnd = now
		}
	}
	slices.SortFunc(ended, oldestFirst)
	return ended
}

// ForgetDryRuns drops the bookings of dry runs and the simulated victims: once evictd evicts for
// real, none of them is in flight.
func (t *Tracker) ForgetDryRuns() {
	t.simulated = Simulated{}
	maps.DeleteFunc(t.bookings, func(_ string, b decide.Victim) bool { return b.DryRun })
}

// LastEnd returns when a victim last ended that evictd evicted; the zero time when none has. The
// next victim is chosen from a newer sample only. The ends of other pods do not count: on a node
// with short jobs pods end all the time.
func (t *Tracker) LastEnd() time.Time { return t.lastEnd }

// All returns the bookings, the oldest first.
func (t *Tracker) All() []decide.Victim {
	if len(t.bookings) == 0 {
		return nil // a calm tick allocates nothing for it
	}
	return slices.SortedFunc(maps.Values(t.bookings), oldestFirst)
}

func oldestFirst(a, b decide.Victim) int {
	return cmp.Or(a.Accepted.Compare(b.Accepted), cmp.Compare(a.UID, b.UID))
}
