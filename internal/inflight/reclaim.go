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

// reclaim is that of one victim of evictd's, as far as it is known. Others is the rest of the books when it held Last.
type reclaim struct {
	decide.Ended
	others int64
}

// books are what is available on the node and what the pods hold, read at one moment. The zero
// value is not known.
type books struct {
	seen pressure.Sample
	held map[string]pressure.Amounts // by the UID of the cgroup
}

// follow begins to measure a victim that was accepted. A victim that is followed already is not
// affected. The victim of a dry run, one that has ended, and one that evictd did not evict, are not followed.
func (t *Tracker) follow(v *decide.Victim) {
	signal, err := pressure.ParseSignal(v.Signal)
	if err != nil || v.DryRun || v.Phase != decide.Terminating || t.reclaims[v.UID] != nil {
		return
	}
	r := &reclaim{Ended: decide.Ended{Signal: signal}}
	if expected, known := decide.ReclaimOf(signal, v.Expected); known {
		r.Expected = &expected
	}
	t.reclaims[v.UID] = r
	t.booksRead = time.Time{} // at once, before it begins to end
}

// ObserveReclaim takes the victims that have ended in this tick, and returns those of evictd's with
// what their ends freed. The books are read when one has ended, and once a second while one is in
// flight: what all pods hold and, right after it, the node, by sample; a victim that takes a gigabyte
// a second would otherwise be seen at two sizes.
func (t *Tracker) ObserveReclaim(now time.Time, ended []decide.Victim, sample func() pressure.Sample) []decide.Ended {
	gone := slices.DeleteFunc(slices.Clone(ended), func(v decide.Victim) bool { return t.reclaims[v.UID] == nil })
	if len(t.reclaims) == 0 || len(gone) == 0 && now.Sub(t.booksRead) < booksEvery {
		return nil
	}
	t.booksRead = now
	var read books
	if held, err := t.measurer.Held(now); err == nil {
		read = books{sample(), held}
	}
	victims := make([]decide.Ended, 0, len(gone))
	for i := range gone {
		r := t.reclaims[gone[i].UID]
		delete(t.reclaims, gone[i].UID)
		r.Victim = gone[i]
		// One figure is not said without the other: their sums are compared.
		if sum, known := read.sum(r.Signal); !known {
			r.Last = nil
		} else if r.Last != nil {
			r.Freed = new(sum - r.others)
		}
		victims = append(victims, r.Ended)
	}
	for uid, r := range t.reclaims {
		r.observe(uid, &read)
	}
	return victims
}

// sum returns what is available of the signal and what all pods hold of it, together, in its unit;
// false when a part is not known. For a disk it is not known what pods hold at a given moment, and
// for a stall it is not known what a pod's part is.
func (b *books) sum(signal pressure.Signal) (sum int64, known bool) {
	seen := b.seen.Of(signal)
	if seen.State != pressure.Known || !signal.ReclaimMeasured() {
		return 0, false
	}
	sum = seen.Available
	for _, held := range b.held {
		amount, known := held.Of(signal)
		if !known {
			return 0, false // tasks that could not be read
		}
		sum += amount
	}
	return sum, true
}

// observe keeps the books while the victim holds at least half of what it held when it was
// accepted: what is left after that is the end of what has begun to end.
func (r *reclaim) observe(uid string, now *books) {
	held := now.held[uid].At(r.Signal)
	sum, known := now.sum(r.Signal)
	if r.Expected != nil && known && held != 0 && held >= *r.Expected/2 {
		r.Last, r.others = &held, sum-held
	}
}
