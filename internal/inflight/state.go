package inflight

import (
	"time"
)

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
		if ahead := b.Accepted.Sub(now); ahead > 0 {
			b.Accepted, b.Deadline = now, b.Deadline.Add(-ahead)
		}
		b.Escalated = earlier(b.Escalated, now)
		l.bookings[b.UID] = b
	}
}

// earlier returns the earlier of two times: one of another process may not be in the future.
func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
