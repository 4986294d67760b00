package inflight

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/state"
	"github.com/evictd/evictd/pkg/evict"
	"github.com/evictd/evictd/pkg/pressure"
)

// restarted returns a tracker that was restored from what the first one exports, as it comes
// back from a file, and the requests that were given up.
func restarted(t *testing.T, before *Tracker, now time.Time) (*Tracker, []*decide.InDoubt) {
	t.Helper()
	boot := state.Identity{BootID: "boot"}
	text, err := state.Encode(before.Export(), boot, now)
	if err != nil {
		t.Fatal(err)
	}
	var kept State
	if err := state.Decode(text, boot, now, &kept); err != nil {
		t.Fatal(err)
	}
	next := on(&node{})
	return next, next.Restore(kept, now)
}

// happen makes one random thing happen to the ledger.
func happen(l *Tracker, r *rand.Rand, now time.Time) {
	uid := fmt.Sprintf("pod-%d", r.IntN(8))
	switch r.IntN(4) {
	case 0, 1:
		l.Accept(decide.Victim{
			Namespace: "shop", Name: uid, UID: uid, Expected: memory(r.Int64N(1000)),
			Signal: []string{"", "memory.available"}[r.IntN(2)], Accepted: now, GraceSeconds: 30,
			Deadline: now.Add(time.Duration(r.IntN(90)) * time.Second), DryRun: r.IntN(4) == 0,
		})
	case 2:
		escalates(l, uid, []evict.Outcome{evict.Evicted, evict.BlockedByBudget, evict.Unconfirmed}[r.IntN(3)], now)
	default:
		endGone(l, now, func(there string) bool { return there != uid })
	}
}

// says returns everything that the ledger reports at a given time.
func says(l *Tracker, now time.Time) map[string]any {
	expected := decide.Relied(l.All(), short(pressure.MemoryAvailable, now, true))
	return map[string]any{"in flight": l.All(), "last end": l.LastEnd().UnixNano(), "relied": expected}
}

// Guards invariant 9: whatever has happened before, a process that was restarted and one that
// was not say the same from then on, whatever happens.
func TestRestoredLedgerSaysTheSame(t *testing.T) {
	t.Parallel()
	for seed := range uint64(100) {
		before, now := on(&node{}), at(time.Hour)
		r := rand.New(rand.NewPCG(seed, 1))
		for range r.IntN(40) {
			now = now.Add(time.Duration(r.IntN(20_000)) * time.Millisecond)
			happen(before, r, now)
		}
		restored, _ := restarted(t, before, now)
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

func TestExpiredVictimsAreNotRestored(t *testing.T) {
	t.Parallel()
	l := on(&node{})
	l.Accept(own("a", 1))
	for after, want := range map[time.Duration]int{0: 1, 2 * time.Hour: 1, 24*time.Hour + 45*time.Second: 0} {
		if got, _ := restarted(t, l, at(after)); len(got.All()) != want {
			t.Errorf("%d restored after %v, want %d", len(got.All()), after, want)
		}
	}
}

// A dry run's victims are restored, those that count as ended too, and end with the dry run.
func TestDryRunsVictimsEndWithItAfterARestart(t *testing.T) {
	t.Parallel()
	l, dry, ended := on(&node{}), own("a", 1), own("ended", 1)
	dry.DryRun, ended.DryRun, ended.Deadline = true, true, at(0)
	l.Accept(dry)
	l.Accept(ended)
	endGone(l, at(1), always)
	next, _ := restarted(t, l, at(time.Second))
	if !next.Terminates("a") || !next.Simulated("ended") {
		t.Errorf("restored: %+v, want both victims of the dry run", next.Export())
	}
	if next.Adopt(pressure.Kernel, false); len(next.Export().Victims) > 0 {
		t.Error("the dry run's victims outlived it")
	}
}

// A clock that was set back must not make anything last longer.
func TestRestoredTimesAreNotInTheFuture(t *testing.T) {
	t.Parallel()
	l, now := on(&node{}), at(0)
	for _, uid := range []string{"a", "gone"} {
		v := own(uid, 1)
		v.Accepted, v.Deadline = at(time.Hour), at(time.Hour+time.Minute)
		l.Accept(v)
	}
	endGone(l, at(time.Hour), func(uid string) bool { return uid == "a" })
	next, _ := restarted(t, l, now)
	for _, v := range next.Export().Victims {
		if !v.Accepted.Equal(now) && v.Phase == decide.Terminating || v.Deadline.After(now.Add(time.Minute)) && v.Phase == decide.Terminating || v.Ended.After(now) {
			t.Errorf("in flight: %+v", v)
		}
	}
	if next.LastEnd().After(now) || len(next.Export().Victims) != 2 {
		t.Errorf("last end %v, in flight %+v", next.LastEnd(), next.Export())
	}
}
