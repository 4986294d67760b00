package evict

import (
	"maps"
	"time"
)

// A restart of the container must not forget what was evicted, what is in flight and which
// pods were refused: see invariant 9 in docs/architecture.md. So each memory of this package
// can be exported as plain values and restored from them. The values say nothing of where
// they are kept. Each entry has an expiry of its own, after which it is not restored: by
// then the memory itself would have forgotten it, or it would mean nothing any more.
//
// The times are those of the node's clock, and lose their monotonic reading in a file. One
// that is in the future when it is restored is taken for now: a clock that was set back must
// not make anything last longer.

// bookingKept is how long after its deadline a booking is restored. A victim that is stuck
// must not look like a new one; whether its pod is still there is asked at the first tick.
const bookingKept = 24 * time.Hour

// LedgerState is what a [Ledger] knows.
type LedgerState struct {
	// Bookings are the victims in flight, the oldest first.
	Bookings []BookingState `json:"bookings,omitempty"`
	// LastEnd is when a victim last ended; the zero time when none has.
	LastEnd time.Time `json:"lastEnd,omitzero"`
}

// BookingState is one victim in flight.
type BookingState struct {
	Booking Booking   `json:"booking"`
	Expires time.Time `json:"expires"`
}

// Export returns what the ledger knows.
func (l *Ledger) Export() LedgerState {
	s := LedgerState{LastEnd: l.lastEnd}
	for _, b := range l.OnTheirWay() {
		b.Expected = maps.Clone(b.Expected)
		s.Bookings = append(s.Bookings, BookingState{Booking: b, Expires: b.Deadline.Add(bookingKept)})
	}
	return s
}

// Len returns how many victims are in flight.
func (l *Ledger) Len() int { return len(l.bookings) }

// Restore replaces what the ledger knows by what was exported and has not expired.
func (l *Ledger) Restore(s LedgerState, now time.Time) {
	l.lastEnd = earlier(s.LastEnd, now)
	l.bookings = make(map[string]Booking, len(s.Bookings))
	for _, kept := range s.Bookings {
		if !now.Before(kept.Expires) {
			continue
		}
		b := kept.Booking
		b.Expected = maps.Clone(b.Expected)
		if ahead := b.Accepted.Sub(now); ahead > 0 {
			b.Accepted, b.Deadline = now, b.Deadline.Add(-ahead)
		}
		b.Escalated = earlier(b.Escalated, now)
		l.bookings[b.UID] = b
	}
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
