package inflight

import (
	"testing"
	"time"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/pkg/evict"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
)

// A real victim takes the place of a would-be one, and keeps it, with the newest figures; with the end of the dry run
// only would-be victims are forgotten.
func TestVictimsOfADryRun(t *testing.T) {
	t.Parallel()
	const disk = pressure.NodeFSAvailable
	dry, other, mine := victim("a", 100), victim("dry", 100), victim("a", 100)
	dry.DryRun, other.DryRun, mine.Expected = true, true, mine.Expected.With(disk, 500)
	tracker := on(&node{})
	for _, v := range []decide.Victim{dry, mine, dry, other, victim("a", 30)} {
		tracker.Accept(v)
	}
	if got := tracker.All(); len(got) != 2 || got[0].DryRun || got[0].Expected != memory(30).With(disk, 500) {
		t.Errorf("in flight: %+v, want the real one and the other", got)
	}
	tracker.Adopt(false)
	if tracker.Terminates("dry") || !tracker.Terminates("a") {
		t.Errorf("in flight: %+v, want the real one alone", tracker.All())
	}
}

// escalates lets a tracker learn the answer to a request that a pod should end within 7 s.
func escalates(tracker *Tracker, uid string, outcome evict.Outcome, now time.Time) {
	grace := int64(7)
	tracker.Learn(&decide.Report{Decision: decide.Decision{Attempts: []decide.Attempt{{
		Entry: rank.Entry{Pod: &rank.Pod{UID: uid}}, GraceSeconds: &grace, Escalates: true, Result: evict.Result{Outcome: outcome},
	}}}}, now)
}

// TestEscalation: the request to shorten a victim's grace period is repeated until there is a
// response, and sent no more than three times without one.
func TestEscalation(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		outcome   evict.Outcome
		requests  int
		escalated bool
	}{
		{evict.Evicted, 1, true},
		{evict.WouldEvict, 1, true},
		{evict.BlockedByBudget, 1, false},
		{evict.Gone, 1, false},
		{evict.Unconfirmed, 3, false},
		{evict.Throttled, 3, false},
	} {
		tracker, sent := on(&node{}), 0
		tracker.Accept(own("a", 100))
		for v := own("a", 100); v.MayEscalate(); v = tracker.All()[0] {
			escalates(tracker, "a", test.outcome, at(time.Minute))
			sent++
		}
		got, again := tracker.All(), func(at time.Time) bool { return tracker.All()[0].ReliedOn(short(pressure.MemoryAvailable, at, true)) }
		if sent != test.requests || len(got) != 1 || again(at(82*time.Second)) != test.escalated || again(at(82*time.Second+1)) || (got[0].GraceSeconds == 7) != test.escalated {
			t.Errorf("%s: %d requests, then %+v; want %d, and relied on again %v", test.outcome, sent, got, test.requests, test.escalated)
		}
	}
	if other := victim("a", 100); other.MayEscalate() {
		t.Error("a pod that others end may be escalated")
	}
}
