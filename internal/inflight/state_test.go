package inflight_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/inflight"
	"github.com/evictd/evictd/pkg/evict"
	"github.com/evictd/evictd/pkg/pressure"
)

// restarted returns a ledger that was restored from what the first one exports, as it comes
// back from a file.
func restarted(t *testing.T, before *inflight.Tracker, now time.Time) *inflight.Tracker {
	t.Helper()
	text, err := json.Marshal(before.Export())
	if err != nil {
		t.Fatal(err)
	}
	var kept inflight.State
	if err := json.Unmarshal(text, &kept); err != nil {
		t.Fatal(err)
	}
	next := inflight.New()
	next.Restore(kept, now)
	return next
}

// happen makes one random thing happen to the ledger.
func happen(l *inflight.Tracker, r *rand.Rand, now time.Time) {
	uid := fmt.Sprintf("pod-%d", r.IntN(8))
	switch r.IntN(4) {
	case 0, 1:
		l.Book(decide.Victim{
			Namespace: "shop", Name: uid, UID: uid, Expected: pressure.Amounts{}.With(pressure.MemoryAvailable, r.Int64N(1000)),
			Signal: []string{"", "memory.available"}[r.IntN(2)], Accepted: now, GraceSeconds: 30,
			Deadline: now.Add(time.Duration(r.IntN(90)) * time.Second), DryRun: r.IntN(4) == 0,
		})
	case 2:
		l.Escalate(uid, []evict.Outcome{evict.Evicted, evict.BlockedByBudget, evict.Unconfirmed}[r.IntN(3)], 1, now.Add(time.Minute), now)
	default:
		l.Observe(now, func(there string) bool { return there != uid })
	}
}

// says returns everything that the ledger reports at a given time.
func says(l *inflight.Tracker, now time.Time) map[string]any {
	expected, relied := decide.Relied(l.All(), pressure.MemoryAvailable, now, time.Minute)
	return map[string]any{"in flight": l.All(), "last end": l.LastEnd().UnixNano(), "relied": fmt.Sprint(expected, relied)}
}

// Guards invariant 9: whatever has happened before, a process that was restarted and one that
// was not say the same from then on, whatever happens.
func TestRestoredLedgerSaysTheSame(t *testing.T) {
	t.Parallel()
	for seed := range uint64(100) {
		before, now := inflight.New(), at(time.Hour)
		r := rand.New(rand.NewPCG(seed, 1))
		for range r.IntN(40) {
			now = now.Add(time.Duration(r.IntN(20_000)) * time.Millisecond)
			happen(before, r, now)
		}
		restored := restarted(t, before, now)
		for step := range 30 {
			if diff := cmp.Diff(says(before, now), says(restored, now), cmpopts.EquateComparable(pressure.Amounts{})); diff != "" {
				t.Fatalf("seed %d, step %d after the restart (-not restarted +restarted):\n%s", seed, step, diff)
			}
			now = now.Add(time.Duration(r.IntN(60_000)) * time.Millisecond)
			same := r.Uint64()
			happen(before, rand.New(rand.NewPCG(same, 2)), now)
			happen(restored, rand.New(rand.NewPCG(same, 2)), now)
		}
	}
}

func TestExpiredBookingsAreNotRestored(t *testing.T) {
	t.Parallel()
	l := inflight.New()
	l.Book(decide.Victim{UID: "a", Signal: "memory.available", Accepted: at(0), Deadline: at(45 * time.Second)})
	for after, want := range map[time.Duration]int{0: 1, 2 * time.Hour: 1, 24*time.Hour + 45*time.Second: 0} {
		if got := restarted(t, l, at(after)).Len(); got != want {
			t.Errorf("%d bookings restored after %v, want %d", got, after, want)
		}
	}
}

func TestDryRunBookingsEndWithTheDryRunAfterARestart(t *testing.T) {
	t.Parallel()
	l := inflight.New()
	l.Book(decide.Victim{UID: "a", Signal: "memory.available", DryRun: true, Accepted: at(0), Deadline: at(45 * time.Second)})
	next := restarted(t, l, at(time.Second))
	if !next.Booked("a") {
		t.Error("the dry run's booking was not restored")
	}
	next.ForgetDryRuns()
	if next.Booked("a") {
		t.Error("the dry run's booking outlived it")
	}
}

// A clock that was set back must not make anything last longer.
func TestRestoredTimesAreNotInTheFuture(t *testing.T) {
	t.Parallel()
	l, now := inflight.New(), at(0)
	l.Book(decide.Victim{UID: "a", Signal: "memory.available", Accepted: at(time.Hour), Deadline: at(time.Hour + time.Minute)})
	l.Book(decide.Victim{UID: "gone", Accepted: at(time.Hour), Deadline: at(time.Hour)})
	l.Observe(at(time.Hour), func(uid string) bool { return uid == "a" })
	next := restarted(t, l, now)
	booked := next.All()[0]
	if !booked.Accepted.Equal(now) || !booked.Deadline.Equal(now.Add(time.Minute)) || next.LastEnd().After(now) {
		t.Errorf("booked %+v, last end %v", booked, next.LastEnd())
	}
}
