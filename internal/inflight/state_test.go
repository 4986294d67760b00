package inflight

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/state"
	"github.com/evictd/evictd/internal/testing/must"
	"github.com/evictd/evictd/pkg/pressure"
)

// restarted returns a tracker of the same node that was restored from what the first one exports, as it
// comes back from a file, and the requests that were given up.
func restarted(t *testing.T, before *Tracker, now time.Time) (*Tracker, []*decide.InDoubt) {
	t.Helper()
	const boot = "boot"
	text, err := state.Encode(before.Export(), boot)
	must.Succeed(t, err)
	var kept State
	must.Succeed(t, state.Decode(text, boot, &kept))
	next := New(before.pods, before.measurer)
	return next, next.Restore(kept, now)
}

// says returns everything that a tracker reports at a given time.
func says(t *Tracker, now time.Time) map[string]any {
	const memory = pressure.MemoryAvailable
	return map[string]any{
		"in flight": t.All(), "last end": t.lastEnd, "relied": decide.Relied(t.All(), short(memory, now, true)), "simulated": t.simulatedAmount(memory),
	}
}

// asks reads all of a tracker, and changes what it returns.
func asks(t *Tracker, now time.Time) {
	for _, signal := range pressure.Signals() {
		t.Into(situation(signal, now, &decide.Uses{}))
	}
	for i := range 7 {
		uid := fmt.Sprintf("pod-%d", i) // one more than there ever are
		t.Terminates(uid)
		t.Simulated(uid)
	}
	for all, i := t.All(), 0; i < len(all); i++ {
		all[i].Deadline = time.Time{}
	}
	t.Without(&pressure.Sample{})
}

// Guards invariant 9: whatever has happened before, a process that was restarted and one that
// was not say the same from then on, whatever happens. Neither does it matter that only one of them is asked.
func TestRestoredLedgerSaysTheSame(t *testing.T) {
	t.Parallel()
	for seed := range uint64(100) {
		before, restored := newWorld(seed, withoutRestart), newWorld(seed, withoutRestart)
		for step := range uint64(70) {
			if step == seed%40 {
				restored.tracker, _ = restarted(t, restored.tracker, restored.now)
			}
			ours, theirs := says(before.tracker, before.now), says(restored.tracker, restored.now)
			if diff := cmp.Diff(ours, theirs, cmpopts.EquateComparable(pressure.Amounts{})); diff != "" {
				t.Fatalf("seed %d, step %d (-not restarted +restarted):\n%s", seed, step, diff)
			}
			asks(before.tracker, before.now)
			before.happen(t)
			restored.happen(t)
		}
	}
}

// What has expired is not restored, and a clock that was set back makes nothing last longer.
func TestRestoredTimes(t *testing.T) {
	t.Parallel()
	l := on(&node{})
	for _, uid := range []string{"a", "gone"} {
		l.Accept(own(uid, 1))
	}
	endGone(l, at(0), func(uid string) bool { return uid == "a" })
	for after, want := range map[time.Duration]int{
		-time.Hour: 2, 0: 2, decide.CollectedWithin - 1: 2, decide.CollectedWithin: 1, 48 * time.Hour: 1,
	} {
		next, _ := restarted(t, l, at(after))
		kept := next.Export()
		if len(kept.Victims) != want || !next.Terminates("a") || kept.LastEnd.After(at(after)) {
			t.Errorf("restored after %v: %+v, want %d", after, kept, want)
		}
		for _, v := range kept.Victims {
			if v.Accepted.After(at(after)) || v.Deadline.Sub(v.Accepted) != 45*time.Second || v.Ended.After(at(after)) {
				t.Errorf("restored after %v: in flight: %+v", after, v)
			}
		}
	}
}
