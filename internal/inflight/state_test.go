package inflight

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/nodepods"
	"github.com/evictd/evictd/internal/state"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
)

// restarted returns a tracker of the same node that was restored from what the first one exports, as it
// comes back from a file, and the requests that were given up.
func restarted(t *testing.T, before *Tracker, now time.Time) (*Tracker, []*decide.InDoubt) {
	t.Helper()
	const boot = "boot"
	text, err := state.Encode(before.Export(), boot)
	if err != nil {
		t.Fatal(err)
	}
	var kept State
	if err := state.Decode(text, boot, &kept); err != nil {
		t.Fatal(err)
	}
	next := New(before.pods, before.measurer)
	return next, next.Restore(kept, now)
}

// says returns everything that a tracker reports at a given time.
func says(t *Tracker, now time.Time) map[string]any {
	expected := decide.Relied(t.All(), short(pressure.MemoryAvailable, now, true))
	return map[string]any{"in flight": t.All(), "last end": t.lastEnd.UnixNano(), "relied": expected}
}

// Guards invariant 9: whatever has happened before, a process that was restarted and one that
// was not say the same from then on, whatever happens.
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
			before.happen(t)
			restored.happen(t)
		}
	}
}

func TestExpiredVictimsAreNotRestored(t *testing.T) {
	t.Parallel()
	l := on(&node{})
	for _, uid := range []string{"a", "gone"} {
		l.Accept(own(uid, 1))
	}
	endGone(l, at(0), func(uid string) bool { return uid == "a" })
	for after, want := range map[time.Duration]int{0: 2, decide.CollectedWithin - 1: 2, decide.CollectedWithin: 1, 48 * time.Hour: 1} {
		if got, _ := restarted(t, l, at(after)); len(got.Export().Victims) != want || !got.Terminates("a") {
			t.Errorf("restored after %v: %+v, want %d", after, got.Export(), want)
		}
	}
}

// A dry run's victims are restored, those that count as ended too, and end with the dry run.
func TestDryRunsVictimsEndWithItAfterARestart(t *testing.T) {
	t.Parallel()
	l, dry, ended := on(&node{pods: []*nodepods.Pod{{Pod: rank.Pod{UID: "ended"}}}}), own("a", 1), own("ended", 1)
	dry.DryRun, ended.DryRun, ended.Deadline = true, true, at(0)
	l.Accept(dry)
	l.Accept(ended)
	endGone(l, at(1), always)
	next, _ := restarted(t, l, at(time.Second))
	if !next.Terminates("a") || !next.Simulated("ended") {
		t.Errorf("restored: %+v, want both victims of the dry run", next.Export())
	}
	if next.Adopt(false); len(next.Export().Victims) > 0 {
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
	if next.lastEnd.After(now) || len(next.Export().Victims) != 2 {
		t.Errorf("last end %v, in flight %+v", next.lastEnd, next.Export())
	}
}
