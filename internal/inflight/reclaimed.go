package inflight

import (
	"slices"
	"time"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/pkg/pressure"
)

// What a victim's end freed is a difference of the whole node's books: see
// docs/adr/0022-measure-actual-reclaim-as-a-difference-of-books.md.

// booksEvery is how often the books are read while victims of evictd's are in flight.
const booksEvery = time.Second

// Books are what is available on the node and what the pods hold, read at one moment. The zero
// value is not known.
type Books struct {
	// Available is what the node has of each signal, in its unit.
	Available pressure.Amounts
	// Held is what each pod's end should free, by the UID of its cgroup.
	Held map[string]pressure.Amounts
}

// Sum returns what is available of the signal and what all pods hold of it, together, in its unit;
// false when a part is not known. For a disk it is not known what pods hold at a given moment, and
// for a stall it is not known what a pod's part is.
func (b *Books) Sum(signal pressure.Signal) (sum int64, known bool) {
	sum, known = b.Available.Of(signal)
	if !known || signal.Reclaim() != pressure.ReclaimMeasured {
		return 0, false
	}
	for _, held := range b.Held {
		amount, known := held.Of(signal)
		if !known {
			return 0, false // tasks that could not be read
		}
		sum += amount
	}
	return sum, true
}

// reclaims are the victims of evictd's whose reclaim is measured, by UID. The zero value has none.
type reclaims struct {
	victims map[string]*measured
	read    time.Time // when the books were read last
}

// measured is one of them.
type measured struct {
	signal   pressure.Signal
	expected *int64 // when it was accepted; nil where that is not known
	// held is what it held at the last measurement before it began to end, others the rest of
	// the books then; known is false before the first.
	known        bool
	held, others int64
}

// follow begins to measure a victim that was accepted. A victim that is followed already is not
// affected. The victim of a dry run, and one that evictd did not evict, are not followed.
func (r *reclaims) follow(b *decide.Victim) {
	signal, err := pressure.ParseSignal(b.Signal)
	if err != nil || b.DryRun || r.victims[b.UID] != nil {
		return
	}
	m := &measured{signal: signal}
	if amount, known := reclaimOf(signal, b.Expected); known {
		m.expected = &amount
	}
	if r.victims == nil {
		r.victims = map[string]*measured{}
	}
	r.victims[b.UID] = m
	r.read = time.Time{} // at once, before it begins to end
}

// reclaimOf returns what an end should free of the signal. For a stall the bookings only say which
// pods are waited for, not how much of it would end.
func reclaimOf(signal pressure.Signal, expected pressure.Amounts) (amount int64, known bool) {
	amount, known = expected.Of(signal)
	return amount, known && signal.Reclaim() != pressure.ReclaimUnknown
}

// ObserveBooks takes the bookings that have ended since the last tick and returns those of evictd's
// victims with what their ends freed. The books are read when one has ended, and once a second
// while one is in flight.
func (t *Tracker) ObserveBooks(now time.Time, ended []decide.Victim, read func() Books) []decide.Ended {
	r := &t.reclaims
	gone := slices.DeleteFunc(slices.Clone(ended), func(b decide.Victim) bool { return r.victims[b.UID] == nil })
	if len(r.victims) == 0 || len(gone) == 0 && now.Sub(r.read) < booksEvery {
		return nil
	}
	r.read = now
	books := read()
	victims := make([]decide.Ended, 0, len(gone))
	for i := range gone {
		m := r.victims[gone[i].UID]
		delete(r.victims, gone[i].UID)
		victims = append(victims, decide.Ended{Victim: gone[i], Time: now, Signal: m.signal, Expected: m.expected, Reclaim: m.end(&books)})
	}
	for uid, m := range r.victims {
		m.observe(uid, &books)
	}
	return victims
}

// RestartBooks drops the readings of the books where they cannot be compared with those that
// follow: memory is measured otherwise from now on.
func (t *Tracker) RestartBooks() {
	for _, m := range t.reclaims.victims {
		m.known = false
	}
}

// observe keeps the books while the victim holds at least half of what it held when it was
// accepted: what is left after that is the end of what has begun to end.
func (m *measured) observe(uid string, now *Books) {
	held := now.Held[uid].At(m.signal)
	sum, known := now.Sum(m.signal)
	if m.expected == nil || !known || held == 0 || m.known && held < *m.expected/2 {
		return
	}
	m.known, m.held, m.others = true, held, sum-held
}

// end compares the books at its end with those before it.
func (m *measured) end(now *Books) *decide.Reclaimed {
	sum, known := now.Sum(m.signal)
	if !m.known || !known {
		return nil
	}
	return &decide.Reclaimed{Expected: m.held, Actual: sum - m.others}
}
