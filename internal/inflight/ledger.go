package inflight

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/evictd/evictd/pkg/pressure"
)

// Ledger remembers what is on its way out, what its end should free and when it
// should be gone. Only an accepted eviction books; a refusal frees nothing. It is
// not safe for concurrent use.
type Ledger struct {
	bookings map[string]Booking
	lastEnd  time.Time
	// lastOwnEnd is when a victim ended last that evictd evicted.
	lastOwnEnd time.Time
}

// NewLedger returns an empty ledger.
func NewLedger() *Ledger { return &Ledger{bookings: map[string]Booking{}} }

// Book notes a victim. A victim that is booked already keeps its first booking, so
// that seeing it again does not move its deadline, and learns only what it should
// still free, as by [Ledger.Expect]; but what is really on its way replaces what a
// dry run simulated, and an answered eviction what was seen of the pod before.
func (l *Ledger) Book(b Booking) {
	before, booked := l.bookings[b.UID]
	if !booked || before.DryRun && !b.DryRun || before.Signal == "" && b.Signal != "" {
		l.bookings[b.UID] = b
		return
	}
	l.Expect(b.UID, b.Expected)
}

// Expect notes what a newer measurement says that a booked victim should still
// free. A process that has ended frees nothing any more, and one that goes on
// growing while its preStop hook runs frees more; signals that the measurement does
// not tell of keep their figures. A pod that is not booked is ignored.
func (l *Ledger) Expect(uid string, expected pressure.Amounts) {
	l.Amend(uid, func(b *Booking) { b.Expected = b.Expected.Updated(expected) })
}

// Amend changes a booking. A pod that is not booked is ignored.
func (l *Ledger) Amend(uid string, change func(*Booking)) {
	if b, booked := l.bookings[uid]; booked {
		change(&b)
		l.bookings[uid] = b
	}
}

// Booked reports whether the pod is on its way out as far as the ledger knows.
func (l *Ledger) Booked(uid string) bool {
	_, booked := l.bookings[uid]
	return booked
}

// Own reports whether the pod is on its way out because evictd evicted it.
func (l *Ledger) Own(uid string) bool {
	b := l.bookings[uid]
	return b.Signal != "" && !b.DryRun
}

// Settle ends the bookings whose pods are not present any more and returns them. A
// dry run's booking also ends at its deadline: by then its pod would have gone. So does
// that of a pod which is not listed: what is still there then is not leaving.
func (l *Ledger) Settle(now time.Time, present func(uid string) bool) []Booking {
	var ended []Booking
	for uid, b := range l.bookings {
		over := (b.DryRun || b.Unlisted) && now.After(b.Deadline)
		if present(uid) && !over {
			continue
		}
		delete(l.bookings, uid)
		ended = append(ended, b)
		l.lastEnd = now
		if b.Signal != "" {
			l.lastOwnEnd = now
		}
	}
	slices.SortFunc(ended, oldestFirst)
	return ended
}

// ForgetDryRuns drops the bookings of dry runs: once evictd acts in earnest,
// nothing of them is really on its way.
func (l *Ledger) ForgetDryRuns() {
	maps.DeleteFunc(l.bookings, func(_ string, b Booking) bool { return b.DryRun })
}

// ForgetUnlisted drops the bookings of pods that were not listed and are: what is known of
// them is what the list says.
func (l *Ledger) ForgetUnlisted(listed func(uid string) bool) {
	maps.DeleteFunc(l.bookings, func(uid string, b Booking) bool { return b.Unlisted && listed(uid) })
}

// Relied returns what the victims that are relied on should still free of the signal, in
// its unit, and whether there are any, see [Booking.ReliedOn].
func (l *Ledger) Relied(signal pressure.Signal, now time.Time, patience time.Duration) (expected int64, relied bool) {
	for _, b := range l.bookings {
		if b.ReliedOn(now, patience) {
			relied = true
			expected += b.Expected.At(signal)
		}
	}
	return expected, relied
}

// LastEnd returns when a victim last ended; the zero time when none has. The next
// victim is chosen from a newer sample only.
func (l *Ledger) LastEnd() time.Time { return l.lastEnd }

// LastOwnEnd returns when a victim last ended that evictd evicted; the zero time when none
// has.
func (l *Ledger) LastOwnEnd() time.Time { return l.lastOwnEnd }

// OnTheirWay returns the bookings, the oldest first.
func (l *Ledger) OnTheirWay() []Booking {
	if len(l.bookings) == 0 {
		return nil // a calm tick allocates nothing for it
	}
	return slices.SortedFunc(maps.Values(l.bookings), oldestFirst)
}

func oldestFirst(a, b Booking) int {
	return cmp.Or(a.Accepted.Compare(b.Accepted), cmp.Compare(a.UID, b.UID))
}
