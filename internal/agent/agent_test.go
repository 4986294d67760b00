package agent

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"

	"github.com/evictd/evictd/internal/cooldown"
	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/execute"
	"github.com/evictd/evictd/internal/measure"
	"github.com/evictd/evictd/pkg/evict"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
)

func TestEvictsTheFirstOfTheOrderOnly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(1000)
		n.run("greedy", 500, 100)
		n.run("modest", 450, 500)
		watch(t, n, hardPolicy(), time.Minute)
		n.wantVictims(t, "greedy")
		d := n.decisions[0]
		if d.Verb != decide.Acted || d.Victim() == nil || d.Victim().Entry.Position != 1 || len(d.Ranking.Candidates) != 2 {
			t.Errorf("the record does not tell the story: %+v", d)
		}
	})
}

func TestCalmNodeSendsAndRecordsNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(1000)
		n.run("greedy", 500, 100)
		watch(t, n, hardPolicy(), time.Hour)
		if len(n.evictions) != 0 || len(n.decisions) != 0 || n.samples < 3600 {
			t.Errorf("%d evictions, %d decisions, %d samples", len(n.evictions), len(n.decisions), n.samples)
		}
	})
}

// A calm node's pods are measured now and then, so that the first decision finds
// everything open, and what cannot be read is known before it is needed.
func TestCalmNodeRehearses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(1000)
		n.run("greedy", 500, 100)
		watch(t, n, hardPolicy(), 5*time.Minute+time.Second)
		if n.collects != 11 || len(n.decisions) != 0 || len(n.evictions) != 0 {
			t.Errorf("measured %d times in 5 minutes, want 11; %d decisions", n.collects, len(n.decisions))
		}
	})
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(1000)
		n.run("greedy", 500, 100)
		n.unread = errPlanted()
		watch(t, n, hardPolicy(), time.Second)
		if diff := cmp.Diff([]string{measure.SourceUsage}, n.readFault); diff != "" {
			t.Errorf("reported before it is needed (-want +got):\n%s", diff)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(1000)
		n.unsynced = true
		watch(t, n, hardPolicy(), time.Minute)
		if n.collects != 0 {
			t.Errorf("measured %d times without knowing the pods", n.collects)
		}
	})
}

// withUnknown is a sampler that cannot read one signal.
type withUnknown struct {
	*fakeNode
	signal pressure.Signal
}

func (w withUnknown) Sample(now time.Time) pressure.Sample {
	sample := w.fakeNode.Sample(now)
	sample.Observations[w.signal] = pressure.Observation{Err: errPlanted()}
	return sample
}

func TestEachHoldIsNamed(t *testing.T) {
	t.Parallel()
	tests := []struct {
		want  decide.Hold
		setUp func(n *fakeNode, policy *Policy)
	}{
		{decide.HoldPodsNotSynced, func(n *fakeNode, _ *Policy) { n.unsynced = true }},
		{decide.HoldUsageUnknown, func(n *fakeNode, _ *Policy) { n.unread = errPlanted() }},
		{decide.HoldNoCandidates, func(n *fakeNode, _ *Policy) {
			n.changed("greedy", func(p *corev1.Pod) { p.OwnerReferences = nil })
		}},
		{decide.HoldReclaimInProgress, func(n *fakeNode, _ *Policy) {
			n.run("leaving", 110, 0)
			n.host = 30 * mebi // nothing is available, a tenth is wanted
			n.stubborn = true
			n.terminate("uid-leaving")
		}},
	}
	for _, test := range tests {
		t.Run(string(test.want), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n := newFakeNode(1000)
				n.host = 100 * mebi
				n.run("greedy", 860, 100)
				policy := hardPolicy()
				test.setUp(n, &policy)
				watch(t, n, policy, time.Second)
				if len(n.evictions) != 0 {
					t.Errorf("evicted %v", n.victims())
				}
				if diff := cmp.Diff([]decide.Hold{test.want}, n.holds()); diff != "" {
					t.Errorf("holds (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestRecoveredOnTheSecondLook(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(1000)
		n.run("greedy", 950, 100)
		a := newAgent(t, n, hardPolicy())
		a.options.Sampler = &flicker{fakeNode: n}
		ctx, stop := context.WithTimeout(t.Context(), 5*time.Millisecond)
		defer stop()
		if err := a.Run(ctx); err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff([]decide.Hold{decide.HoldRecovered}, n.holds()); diff != "" || len(n.evictions) != 0 {
			t.Errorf("%d evictions; holds (-want +got):\n%s", len(n.evictions), diff)
		}
	})
}

// flicker is a sampler whose every second reading is calm.
type flicker struct {
	*fakeNode
	count int
}

func (f *flicker) Sample(now time.Time) pressure.Sample {
	sample := f.fakeNode.Sample(now)
	if f.count++; f.count%2 == 0 {
		sample.Observations[pressure.MemoryAvailable].Available = f.capacity
	}
	return sample
}

// Guards invariant 4: one victim at a time; the next one only when the pods in flight cannot free
// enough.
func TestInvariant04OneVictimAtATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(1000)
		n.ends = 25 * time.Second
		n.run("big", 300, 0)
		n.run("small-1", 200, 0)
		n.run("small-2", 200, 0)
		n.run("small-3", 250, 300)
		watch(t, n, hardPolicy(), 20*time.Second)
		n.wantVictims(t, "big")
	})
}

func TestSecondVictimWhenTheFirstCannotSuffice(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(1000)
		n.ends = 25 * time.Second
		n.run("first", 60, 0)
		n.run("second", 50, 0)
		n.run("third", 40, 0)
		n.host = 830 * mebi // 20 available, 100 wanted
		watch(t, n, hardPolicy(), 20*time.Second)
		n.wantVictims(t, "first", "second")
	})
}

func TestVictimIsNotEvictedAgainWhileTheWatchIsBehind(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(1000)
		n.ends, n.behind = 25*time.Second, true
		n.run("first", 60, 0)
		n.run("second", 50, 0)
		n.host = 870 * mebi // 20 available, 100 wanted
		watch(t, n, hardPolicy(), 20*time.Second)
		n.wantVictims(t, "first", "second")
	})
}

func TestStuckVictimIsNotReliedOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(1000)
		n.stubborn = true
		n.run("stuck", 300, 0)
		n.run("next", 290, 0)
		n.host = 400 * mebi
		watch(t, n, hardPolicy(), 40*time.Second)
		n.wantVictims(t, "stuck")
		// To a process without the state of the one before it is a pod that others end.
		watch(t, n, hardPolicy(), 40*time.Second)
		n.wantVictims(t, "stuck")
		watch(t, n, hardPolicy(), decide.HardPatience+5*time.Second)
		n.wantVictims(t, "stuck", "next")
	})
}

// Guards the second half of invariant 4: the next victim is chosen from a sample
// newer than the last one's end.
func TestInvariant04NextVictimFromANewerSample(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(1000)
		n.run("first", 500, 0)
		n.run("second", 400, 0)
		a := newAgent(t, n, hardPolicy())
		n.pods["uid-first"].memory = 550 * mebi
		a.victims.Accept(decide.Victim{UID: "uid-gone", Signal: "memory.available", Deadline: time.Now().Add(time.Hour)})
		a.tick(t.Context()) // finds that the booked pod has gone, at the time of its sample
		if len(n.evictions) != 0 || a.planned != nil {
			t.Errorf("a victim was chosen from a sample that is not newer than the last one's end")
		}
		if diff := cmp.Diff([]decide.Hold{decide.HoldAwaitingNewerSample}, n.holds()); diff != "" {
			t.Errorf("holds (-want +got):\n%s", diff)
		}
		time.Sleep(time.Millisecond)
		a.tick(t.Context())
		synctest.Wait()
		n.wantVictims(t, "first")
	})
}

func TestRecoveryMeanwhileEndsTheWalk(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(1000)
		n.run("guarded", 500, 100)
		n.run("free", 450, 100)
		n.slow = 5 * time.Second
		n.answer = func(evict.Request) evict.Result { return evict.Result{Outcome: evict.BlockedByBudget} }
		go func() {
			time.Sleep(time.Second)
			n.mu.Lock()
			defer n.mu.Unlock()
			n.capacity *= 2 // while the first answer is awaited
		}()
		watch(t, n, hardPolicy(), 20*time.Second)
		n.wantVictims(t, "guarded")
		if len(n.decisions) != 1 || n.decisions[0].Detail == "" {
			t.Errorf("the record does not say why the plan ended: %+v", n.decisions)
		}
	})
}

// Guards invariant 6: a refusal is an outcome, and the next candidate is tried in
// the same tick.
func TestInvariant06RefusalGoesOnToTheNext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(1000)
		n.run("guarded", 500, 100)
		n.run("free", 450, 100)
		n.answer = func(r evict.Request) evict.Result {
			if r.Name == "guarded" {
				return evict.Result{Outcome: evict.BlockedByBudget, Budget: "web"}
			}
			return evict.Result{Outcome: evict.Evicted}
		}
		watch(t, n, hardPolicy(), time.Minute)
		n.wantVictims(t, "guarded", "free")
		d := n.decisions[0]
		if len(d.Attempts) != 2 || d.Verb != decide.Acted || d.Victim().Entry.Pod.Name != "free" {
			t.Errorf("one decision should hold both attempts: %+v", d)
		}
	})
}

func TestRefusedPodsAreNotHammered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(1000)
		n.run("guarded", 950, 100)
		n.answer = func(evict.Request) evict.Result { return evict.Result{Outcome: evict.BlockedByBudget} }
		watch(t, n, hardPolicy(), 10*time.Minute)
		// 10 s, 20 s, 40 s, 80 s, 160 s, then every 300 s.
		if got := len(n.evictions); got != 6 {
			t.Errorf("%d requests in 10 minutes, want 6", got)
		}
		if !slices.Contains(n.holds(), decide.HoldBackingOff) {
			t.Errorf("holds = %v, want it said that it backs off", n.holds())
		}
	})
}

// TestDeniedPodIsRetriedAfterAWhile: a webhook denies and then allows: the pod is in back-off
// for a minute, and then evicted.
func TestDeniedPodIsRetriedAfterAWhile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(1000)
		n.run("denied", 950, 100)
		began := time.Now()
		var sent []time.Duration
		n.answer = func(evict.Request) evict.Result {
			sent = append(sent, time.Since(began))
			if time.Since(began) < 30*time.Second {
				return evict.Result{Outcome: evict.Denied, Message: "it is payday"}
			}
			return evict.Result{Outcome: evict.Evicted}
		}
		watch(t, n, hardPolicy(), 3*time.Minute)
		if len(sent) != 2 || sent[1]-sent[0] < time.Minute {
			t.Errorf("requests after %v, want two, a minute apart", sent)
		}
		if len(n.pods) != 0 {
			t.Error("the pod is there although the webhook allows it by now")
		}
	})
}

// Guards invariant 8 in the loop: the decision of a dry run is otherwise equal.
func TestInvariant08DryRunDecidesTheSame(t *testing.T) {
	t.Parallel()
	var wet, dry decide.Decision
	for _, run := range []struct {
		dry bool
		to  *decide.Decision
	}{{false, &wet}, {true, &dry}} {
		synctest.Test(t, func(t *testing.T) {
			n := newFakeNode(1000)
			n.run("greedy", 500, 100)
			n.run("modest", 450, 500)
			policy := hardPolicy()
			policy.DryRun = run.dry
			watch(t, n, policy, 10*time.Second)
			*run.to = n.decisions[0]
			if request := n.evictions[0]; request.DryRun != run.dry || len(n.evictions) != 1 {
				t.Errorf("dry run %v: %d requests, the first %+v", run.dry, len(n.evictions), request)
			}
		})
	}
	if wet.Victim().Result.Outcome != evict.Evicted || dry.Victim().Result.Outcome != evict.WouldEvict {
		t.Errorf("outcomes %v and %v", wet.Victim().Result.Outcome, dry.Victim().Result.Outcome)
	}
	dry.DryRun = false
	dry.Attempts[0].Result.Outcome = evict.Evicted
	if diff := cmp.Diff(wet, dry, cmpopts.EquateComparable(pressure.Quantity{}, pressure.Amounts{}), cmpopts.IgnoreUnexported(rank.Entry{})); diff != "" {
		t.Errorf("wet against dry (-wet +dry):\n%s", diff)
	}
}

// Guards invariant 9: after a restart at any point no second pod is evicted for the same deficit.
func TestInvariant09RestartEvictsNoPodTwice(t *testing.T) {
	t.Parallel()
	for _, after := range []time.Duration{0, time.Millisecond, 500 * time.Millisecond, 5 * time.Second, 24 * time.Second} {
		t.Run(after.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n := newFakeNode(1000)
				n.ends = 25 * time.Second
				n.run("greedy", 500, 100)
				n.run("also", 450, 100)
				watch(t, n, hardPolicy(), time.Millisecond+after)
				watch(t, n, hardPolicy(), time.Minute)
				n.wantVictims(t, "greedy")
			})
		})
	}
}

// Guards invariant 10: after SIGTERM no new eviction starts.
func TestInvariant10NoEvictionAfterTheEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(1000)
		n.run("first", 500, 100)
		n.run("second", 450, 100)
		n.slow = time.Second
		n.answer = func(evict.Request) evict.Result { return evict.Result{Outcome: evict.BlockedByBudget} }
		watch(t, n, hardPolicy(), 500*time.Millisecond)
		n.wantVictims(t, "first")
		if len(n.decisions) != 1 || len(n.decisions[0].Attempts) != 1 {
			t.Errorf("the request that was under way is not on record: %+v", n.decisions)
		}
	})
}

func TestRequestUnderWayAtTheEndIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(1000)
		n.run("first", 950, 100)
		n.slow = time.Hour
		started := time.Now()
		watch(t, n, hardPolicy(), time.Second)
		if took := time.Since(started); took > time.Second+execute.ShutdownWait {
			t.Errorf("the end took %v", took)
		}
	})
}

func TestSlowServerDoesNotStopTheWatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(1000)
		n.run("greedy", 950, 100)
		n.slow = 30 * time.Second
		watch(t, n, hardPolicy(), 20*time.Second)
		if n.samples < 100 {
			t.Errorf("%d samples in 20 s while a request hangs, want at least 100", n.samples)
		}
		if len(n.intents) != 1 {
			t.Errorf("%d requests under way together, want 1", len(n.intents))
		}
	})
}

func TestLimitPerMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(1000)
		n.ends = time.Second
		for _, name := range []string{"a", "b", "c", "d", "e"} {
			n.run(name, 1, 0)
		}
		n.host = 990 * mebi // no victim helps
		policy := hardPolicy()
		policy.Limits = cooldown.Limits{PerMinute: 2}
		watch(t, n, policy, 50*time.Second)
		if got := len(n.evictions); got != 2 {
			t.Errorf("%d evictions in 50 s, want 2", got)
		}
		if !slices.Contains(n.holds(), decide.HoldLimitReached) {
			t.Errorf("holds = %v, want the limit named", n.holds())
		}
	})
}

func TestHoldsAreSaidOnceAWhile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(1000)
		n.unsynced = true
		n.run("greedy", 950, 100)
		watch(t, n, hardPolicy(), 5*time.Minute-time.Second)
		if got := len(n.decisions); got != 10 {
			t.Errorf("%d decisions in 5 minutes of one and the same hold, want 10", got)
		}
	})
}

func TestAliveAndReady(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(1000)
		a := newAgent(t, n, hardPolicy())
		if a.Ready() == nil {
			t.Error("ready before the first sample")
		}
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		if err := a.Run(ctx); err != nil {
			t.Error(err)
		}
		if err := a.Ready(); err != nil {
			t.Errorf("not ready: %v", err)
		}
		if err := a.Alive(time.Now()); err != nil {
			t.Errorf("not alive: %v", err)
		}
		if a.Alive(time.Now().Add(time.Minute)) == nil {
			t.Error("alive a minute after the last tick")
		}
		n.unsynced = true
		if a.Ready() == nil {
			t.Error("ready without the node's pods")
		}
	})
}

func TestFirstTickThatHangsIsNoticed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(1000)
		a := newAgent(t, n, hardPolicy())
		hang := make(chan struct{})
		a.options.Sampler = hanging{n, hang}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- a.Run(ctx) }()
		time.Sleep(time.Minute)
		if a.Alive(time.Now()) == nil {
			t.Error("alive although the first tick has hung for a minute")
		}
		stop()
		close(hang)
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// hanging is a sampler that does not come back before the test says so.
type hanging struct {
	*fakeNode
	until chan struct{}
}

func (h hanging) Sample(now time.Time) pressure.Sample {
	<-h.until
	return h.fakeNode.Sample(now)
}

// A soft threshold is not dealt with beside the hard one of the same signal.
func TestHardThresholdSpeaksForTheSignal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(1000)
		n.unsynced = true
		n.run("greedy", 950, 100)
		policy := hardPolicy()
		policy.Thresholds = append(policy.Thresholds, pressure.Threshold{
			Signal: pressure.MemoryAvailable, Quantity: pressure.Fraction(0.2), Grace: time.Millisecond,
		})
		watch(t, n, policy, time.Second)
		for _, d := range n.decisions {
			if !d.Pressure.Threshold.Hard {
				t.Errorf("the soft threshold was dealt with too: %+v", d)
			}
		}
	})
}

func TestReloadPutsThePolicyInForce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(1000)
		n.run("greedy", 850, 100) // 150 available: calm at a tenth
		a := newAgent(t, n, hardPolicy())
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- a.Run(ctx) }()
		time.Sleep(10 * time.Second)
		policy := hardPolicy()
		policy.Thresholds[0].Quantity = pressure.Fraction(0.2)
		if !a.Reload(ctx, enforced(policy), n) {
			t.Error("the policy was not taken")
		}
		time.Sleep(time.Second)
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		n.wantVictims(t, "greedy")
	})
}

func TestEndOfTheDryRunDoesNotRelyOnWhatItSimulated(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(1000)
		n.run("greedy", 950, 100)
		policy := hardPolicy()
		policy.DryRun = true
		a := newAgent(t, n, policy)
		ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
		defer stop()
		go func() {
			time.Sleep(5 * time.Second)
			a.Reload(ctx, enforced(hardPolicy()), n)
		}()
		if err := a.Run(ctx); err != nil {
			t.Error(err)
		}
		if len(n.evictions) != 2 || !n.evictions[0].DryRun || n.evictions[1].DryRun {
			t.Errorf("requests %+v, want a dry run and then the real thing", n.evictions)
		}
	})
}
