package inflight

import (
	"time"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/restored"
	"github.com/evictd/evictd/pkg/pressure"
)

// bookingKept is how long after its deadline a booking is restored. A victim that is stuck must not
// look like a new one; the first tick checks whether its pod is still there.
const bookingKept = 24 * time.Hour

// State is what a [Tracker] knows.
type State struct {
	// Ledger are the victims in flight.
	Ledger Bookings `json:"ledger,omitzero"`
	// Gone are the victims that have ended and are still in flight.
	Gone []Gone `json:"gone,omitempty"`
}

// Gone is a victim that has ended and is still in flight.
type Gone struct {
	// Namespace, Name and UID identify it, and Signal is what it was evicted for; "" for one of the
	// kubelet's. InDoubt says that it is not known whether it was evicted.
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
	UID       string `json:"uid,omitempty"`
	Signal    string `json:"signal,omitempty"`
	InDoubt   bool   `json:"inDoubt,omitempty"`
	// At is when it was found to have ended.
	At time.Time `json:"at"`
	// Expected is what should come back of what it held, Before what was available before that,
	// both by signal and in the signal's unit.
	Expected pressure.Amounts `json:"expected,omitzero"`
	Before   pressure.Amounts `json:"before,omitzero"`
	Expires  time.Time        `json:"expires"`
}

// Bookings are the victims in flight.
type Bookings struct {
	// Bookings are the victims in flight, the oldest first.
	Bookings []BookingState `json:"bookings,omitempty"`
	// LastEnd is when a victim of evictd's last ended; the zero time when none has.
	LastEnd time.Time `json:"lastEnd,omitzero"`
}

// BookingState is one victim in flight.
type BookingState struct {
	Booking decide.Victim `json:"booking"`
	Expires time.Time     `json:"expires"`
}

// Export returns what the tracker knows.
func (t *Tracker) Export() State {
	s := State{Ledger: Bookings{LastEnd: t.lastEnd}, Gone: t.returning.export()}
	for _, b := range t.All() {
		s.Ledger.Bookings = append(s.Ledger.Bookings, BookingState{Booking: b, Expires: b.Deadline.Add(bookingKept)})
	}
	return s
}

// Len returns how many victims are in flight.
func (t *Tracker) Len() int { return len(t.bookings) }

// Restore takes what was exported and has not expired, before anything else happens.
func (t *Tracker) Restore(s State, now time.Time) {
	t.returning.restore(s.Gone, now)
	t.lastEnd = restored.Time(s.Ledger.LastEnd, now, 0)
	for _, kept := range s.Ledger.Bookings {
		if !now.Before(kept.Expires) {
			continue
		}
		b := kept.Booking
		accepted := restored.Time(b.Accepted, now, 0)
		b.Accepted, b.Deadline = accepted, accepted.Add(b.Deadline.Sub(b.Accepted))
		b.Escalated = restored.Time(b.Escalated, now, 0)
		t.bookings[b.UID] = b
		t.reclaims.follow(&b)
	}
}

// earlier returns the earlier of two times: one of another process may not be in the future.
func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
