package agent

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evictd/evictd/pkg/evict"
	"github.com/evictd/evictd/pkg/pressure"
)

// lost answers every request as if its answer had been lost on the way.
func lost(evict.Request) evict.Result {
	return evict.Result{Outcome: evict.Unconfirmed, Message: "connection reset"}
}

func TestUnheardRequestIsLookedIntoBeforeAnybodyElseIsAskedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(1000)
		n.ends, n.behind = 20*time.Second, true // the watch does not tell either
		n.run("greedy", 500, 100)
		n.run("other", 450, 100)
		n.answer = func(r evict.Request) evict.Result {
			n.terminate(r.UID) // it was carried out
			return lost(r)
		}
		watch(t, n, hardPolicy(), 15*time.Second)
		n.wantVictims(t, "greedy")
		if diff := cmp.Diff([]string{"greedy"}, n.looks); diff != "" {
			t.Errorf("looked into (-want +got):\n%s", diff)
		}
		found := slices.ContainsFunc(n.decisions, func(d Decision) bool {
			return d.Verb == Acted && d.Victim() != nil && d.Victim().Result.Outcome == evict.Evicted
		})
		if !found {
			t.Errorf("that it was evicted is not on record: %+v", n.decisions)
		}
	})
}

func TestUnheardRequestThatWasNotCarriedOutIsSentAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(1000)
		n.run("greedy", 500, 100)
		n.run("other", 450, 100)
		n.answer = func(r evict.Request) evict.Result {
			if len(n.evictions) == 1 {
				return lost(r)
			}
			return evict.Result{Outcome: evict.Evicted}
		}
		watch(t, n, hardPolicy(), 15*time.Second)
		n.wantVictims(t, "greedy", "greedy")
	})
}

func TestUnheardRequestOfAPodThatHasEndedIsOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(1000)
		n.ends = 500 * time.Millisecond
		n.run("greedy", 500, 100)
		n.run("other", 450, 100)
		n.answer = func(r evict.Request) evict.Result {
			if len(n.evictions) > 1 {
				return evict.Result{Outcome: evict.Evicted}
			}
			n.terminate(r.UID)
			n.host += 500 * mebi // and the node needs one more
			return lost(r)
		}
		watch(t, n, hardPolicy(), 15*time.Second)
		n.wantVictims(t, "greedy", "other")
	})
}

// While nobody knows what became of the last request, nobody else is asked for, and
// an API server that does not answer is not hammered.
func TestNobodyElseWhileTheLastRequestIsUnknown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(1000)
		n.run("greedy", 500, 100)
		n.run("other", 450, 100)
		n.answer, n.unlooked = lost, errPlanted()
		watch(t, n, hardPolicy(), time.Minute)
		n.wantVictims(t, "greedy")
		if got := len(n.looks); got < 7 || got > 9 { // after 1, 3, 7, 15 s, then every 8 s
			t.Errorf("looked %d times in a minute, want about 8", got)
		}
		if d := n.last(t); d.Verb != Held || d.Hold != HoldUnheard && d.Hold != HoldBackingOff {
			t.Errorf("the record does not say that it is not known: %+v", d)
		}
	})
}

func TestUnheardDryRunIsNotLookedInto(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(1000)
		n.run("greedy", 950, 100)
		n.answer = lost
		policy := hardPolicy()
		policy.DryRun = true
		watch(t, n, policy, 10*time.Second)
		if len(n.looks) != 0 || len(n.evictions) < 2 {
			t.Errorf("%d looks and %d requests, want none and some", len(n.looks), len(n.evictions))
		}
	})
}

// Editing the configuration, to switch to a dry run for example, ends what is being
// carried out.
func TestReloadEndsTheWalk(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(1000)
		n.run("guarded", 500, 100)
		n.run("free", 450, 100)
		n.slow = 5 * time.Second
		n.answer = func(evict.Request) evict.Result { return evict.Result{Outcome: evict.BlockedByBudget} }
		a := newAgent(t, n, hardPolicy())
		ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
		defer stop()
		go func() {
			time.Sleep(time.Second)
			policy := hardPolicy()
			policy.DryRun = true
			a.Reload(ctx, policy, n)
		}()
		if err := a.Run(ctx); err != nil {
			t.Error(err)
		}
		for i, r := range n.evictions {
			if i > 0 && !r.DryRun {
				t.Errorf("%s was asked for in earnest after the switch to a dry run", r.Name)
			}
		}
		if d := n.decisions[0]; !strings.Contains(d.Detail, "the configuration changed") {
			t.Errorf("the record does not say why the walk ended: %+v", d)
		}
	})
}

// blindLater is a sampler that cannot read one signal after so many samples.
type blindLater struct {
	*fakeNode
	signal pressure.Signal
	sees   int
}

func (b *blindLater) Sample(now time.Time) pressure.Sample {
	sample := b.fakeNode.Sample(now)
	if b.sees--; b.sees < 0 {
		sample.Observations[b.signal] = pressure.Observation{Err: errPlanted()}
	} else if sample.Of(b.signal).State == pressure.Absent {
		sample.Observations[b.signal] = pressure.Observation{State: pressure.Known, Available: 9, Capacity: 9}
	}
	return sample
}

func TestBlindnessEndsTheWalk(t *testing.T) {
	t.Parallel()
	for _, signal := range []pressure.Signal{pressure.MemoryAvailable, pressure.NodeFSAvailable} {
		t.Run(signal.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n := newFakeNode(1000)
				n.run("guarded", 500, 100)
				n.run("free", 450, 100)
				n.slow = 5 * time.Second
				n.answer = func(evict.Request) evict.Result { return evict.Result{Outcome: evict.BlockedByBudget} }
				policy := hardPolicy()
				policy.Thresholds = append(policy.Thresholds, pressure.Threshold{
					Signal: pressure.NodeFSAvailable, Quantity: pressure.Absolute(1), Hard: true,
				})
				a := newAgent(t, n, policy)
				a.options.Sampler = &blindLater{n, signal, 10}
				ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
				defer stop()
				if err := a.Run(ctx); err != nil {
					t.Error(err)
				}
				n.wantVictims(t, "guarded")
				if d := n.decisions[0]; !strings.Contains(d.Detail, "could not be read") {
					t.Errorf("the record does not say why the walk ended: %+v", d)
				}
			})
		})
	}
}

func TestBlindSecondLookIsNotARecovery(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(1000)
		n.run("greedy", 950, 100)
		a := newAgent(t, n, hardPolicy())
		a.options.Sampler = &blindLater{n, pressure.MemoryAvailable, 1}
		ctx, stop := context.WithTimeout(t.Context(), 5*time.Millisecond)
		defer stop()
		if err := a.Run(ctx); err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff([]Hold{HoldIncomplete}, n.holds()); diff != "" || len(n.evictions) != 0 {
			t.Errorf("%d evictions; holds (-want +got):\n%s", len(n.evictions), diff)
		}
	})
}

func TestOverloadedServerIsNotHammered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(1000)
		n.run("greedy", 500, 100)
		n.run("other", 450, 100)
		n.answer = func(evict.Request) evict.Result {
			return evict.Result{Outcome: evict.Throttled, RetryAfter: 20 * time.Second}
		}
		watch(t, n, hardPolicy(), 50*time.Second)
		n.wantVictims(t, "greedy", "greedy", "greedy")
		if d := n.last(t); d.Hold != HoldBackingOff && d.Verb != Refused {
			t.Errorf("the record does not say that it waits: %+v", d)
		}
	})
}

func TestLimitPerOwner(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(1000)
		n.ends = time.Second
		for _, name := range []string{"a", "b", "c", "d"} {
			n.run(name, 1, 0)
			n.pods["uid-"+name].api.OwnerReferences[0].UID = "rs-of-all"
		}
		n.host = 990 * mebi // no victim helps
		policy := hardPolicy()
		policy.Limits = evict.Limits{PerOwnerPerHour: 2}
		watch(t, n, policy, 50*time.Second)
		if d := n.last(t); len(n.evictions) != 2 || d.Hold != HoldLimited || !strings.Contains(d.Detail, "perOwnerPerHour") {
			t.Errorf("%d evictions of one owner in 50 s, want 2; the last decision: %+v", len(n.evictions), d)
		}
	})
}

// A dry run that is answered after the dry run has ended is nothing to rely on.
func TestDryRunThatIsAnsweredAfterItsEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(1000)
		n.slow = 2 * time.Second
		n.run("greedy", 950, 100)
		policy := hardPolicy()
		policy.DryRun, policy.Limits = true, evict.Limits{PerMinute: 1}
		a := newAgent(t, n, policy)
		ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
		defer stop()
		go func() {
			time.Sleep(time.Second)
			policy.DryRun = false
			a.Reload(ctx, policy, n)
		}()
		if err := a.Run(ctx); err != nil {
			t.Error(err)
		}
		if len(n.evictions) != 2 || !n.evictions[0].DryRun || n.evictions[1].DryRun {
			t.Errorf("requests %+v, want a dry run and then the real thing", n.evictions)
		}
	})
}

func TestDryRunDoesNotCountAgainstTheLimitsOnceItHasEnded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(1000)
		n.run("greedy", 950, 100)
		policy := hardPolicy()
		policy.DryRun, policy.Limits = true, evict.Limits{PerMinute: 1}
		a := newAgent(t, n, policy)
		ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
		defer stop()
		go func() {
			time.Sleep(5 * time.Second)
			policy.DryRun = false
			a.Reload(ctx, policy, n)
		}()
		if err := a.Run(ctx); err != nil {
			t.Error(err)
		}
		if len(n.evictions) != 2 || !n.evictions[0].DryRun || n.evictions[1].DryRun {
			t.Errorf("requests %+v, want a dry run and then the real thing", n.evictions)
		}
	})
}
