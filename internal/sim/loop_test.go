package sim

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/evictd/evictd/internal/agent"
	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/execute"
	"github.com/evictd/evictd/internal/measure"
	"github.com/evictd/evictd/internal/nodepods"
	"github.com/evictd/evictd/pkg/evict"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
)

func TestEvictsTheFirstOfTheOrderOnly(t *testing.T) {
	story(t, func(n *world) {
		n.runs("greedy 500/100", "modest 450/500")
		n.watch(time.Minute)
		n.evicted("greedy")
		if d := n.acted()[0]; d.Victim().Entry.Position != 1 || len(d.Ranking.Candidates) != 2 {
			t.Errorf("the record does not tell the story: %+v", d)
		}
	})
}

// A calm node's pods are measured now and then, so that the first decision finds everything open, and what
// cannot be read is known before it is needed.
func TestCalmNode(t *testing.T) {
	stories(t, map[string]func(n *world){
		"nothing is sent or recorded": func(n *world) {
			n.watch(time.Hour)
			if n.samples < 3600 || n.collects != 120 {
				t.Errorf("%d samples, measured %d times in an hour; want one a second, and 120", n.samples, n.collects)
			}
		},
		"pods that cannot be read": func(n *world) {
			n.unread = errPlanted()
			n.watch(time.Second)
			same(t, "reported before it is needed", []string{measure.SourceUsage}, n.readFault)
		},
		"the pods are not known": func(n *world) {
			n.unsynced = true
			if n.watch(time.Minute); n.collects != 0 {
				t.Errorf("measured %d times without knowing the pods", n.collects)
			}
		},
	}, func(n *world, _ string, happens func(n *world)) {
		n.runs("greedy 500/100")
		happens(n)
		n.evicted()
		n.held()
	})
}

func TestEachHoldIsNamed(t *testing.T) {
	stories(t, map[decide.Hold]func(n *world){
		decide.HoldPodsNotSynced: func(n *world) { n.unsynced = true },
		decide.HoldUsageUnknown:  func(n *world) { n.unread = errPlanted() },
		decide.HoldNoCandidates:  func(n *world) { n.changed("greedy", bare) },
		decide.HoldReclaimInProgress: func(n *world) {
			n.runs("leaving 110/0")
			n.host = 30 * Mebi // nothing is available, a tenth is wanted
			n.stubborn = true
			n.terminate("uid-leaving")
		},
		decide.HoldRecovered: func(n *world) { // on the second look
			n.sampled = func(s *pressure.Sample) {
				if n.samples%2 == 0 {
					s.Observations[pressure.MemoryAvailable].Available = n.capacity
				}
			}
		},
		decide.HoldIncompleteReading: func(n *world) { // a blind second look is no recovery
			n.sampled = n.blindAfter(pressure.MemoryAvailable, 1)
		},
	}, func(n *world, want decide.Hold, setUp func(n *world)) {
		n.host = 100 * Mebi
		n.runs("greedy 860/100")
		setUp(n)
		n.watch(5 * time.Millisecond)
		n.evicted()
		n.held(want)
	})
}

// blindAfter makes a signal unknown after so many samples; before, an absent one has 9 left.
func (n *world) blindAfter(signal pressure.Signal, sees int) func(*pressure.Sample) {
	return func(s *pressure.Sample) {
		if n.samples > sees {
			s.Observations[signal] = pressure.Observation{Err: errPlanted()}
		} else if s.Of(signal).State == pressure.Absent {
			s.Observations[signal] = pressure.Observation{State: pressure.Known, Available: 9, Capacity: 9}
		}
	}
}

// Guards invariant 4: one victim at a time; the next one only when the pods in flight cannot free
// enough.
func TestInvariant04OneVictimAtATime(t *testing.T) {
	story(t, func(n *world) {
		n.ends = 25 * time.Second
		n.runs("big 300/0", "small-1 200/0", "small-2 200/0", "small-3 250/300")
		n.watch(20 * time.Second)
		n.evicted("big")
	})
}

func TestSecondVictimWhenTheFirstCannotSuffice(t *testing.T) {
	cases := map[string]bool{"the watch tells": false, "the watch is behind": true}
	stories(t, cases, func(n *world, _ string, behind bool) {
		n.ends, n.behind = 25*time.Second, behind
		n.runs("first 60/0", "second 50/0", "third 40/0")
		n.host = 830 * Mebi // 20 available, 100 wanted
		n.watch(20 * time.Second)
		n.evicted("first", "second")
	})
}

func TestStuckVictimIsNotReliedOn(t *testing.T) {
	story(t, func(n *world) {
		n.stubborn = true
		n.runs("stuck 300/0", "next 290/0")
		n.host = 400 * Mebi
		n.watch(40 * time.Second)
		n.evicted("stuck")
		// To a process without the state of the one before it is a pod that others end.
		n.watch(40 * time.Second)
		n.evicted("stuck")
		n.watch(decide.HardPatience + 5*time.Second)
		n.evicted("stuck", "next")
	})
}

// Guards the second half of invariant 4: the next victim is chosen from a sample newer than the last one's
// end, which here is found at the time of the first.
func TestInvariant04NextVictimFromANewerSample(t *testing.T) {
	story(t, func(n *world) {
		n.runs("first 550/0", "second 400/0")
		gone := decide.Victim{UID: "uid-gone", Phase: decide.Terminating, Signal: "memory.available", Accepted: n.began, Deadline: n.began.Add(time.Hour)}
		n.watch(time.Millisecond, func(o *agent.Options) { o.Remembered.InFlight.Victims = []decide.Victim{gone} })
		n.evicted()
		n.held(decide.HoldAwaitingNewerSample)
		n.on(time.Millisecond)
		n.evicted("first")
	})
}

// Guards invariant 6: a refusal is an outcome, and the next candidate is tried in the same tick.
func TestInvariant06RefusalGoesOnToTheNext(t *testing.T) {
	story(t, func(n *world) {
		n.runs("guarded 500/100", "free 450/100")
		n.answers(map[string]evict.Outcome{"guarded": evict.BlockedByBudget})
		n.watch(time.Minute)
		n.evicted("guarded", "free")
		if d := n.decisions[0]; len(d.Attempts) != 2 || d.Verb != decide.Acted || d.Victim().Entry.Pod.Name != "free" {
			t.Errorf("one decision should hold both attempts: %+v", d)
		}
	})
}

func TestRefusedPodsAreNotHammered(t *testing.T) {
	story(t, func(n *world) {
		n.runs("guarded 950/100")
		n.answers(map[string]evict.Outcome{"": evict.BlockedByBudget})
		n.watch(10 * time.Minute)
		// 10 s, 20 s, 40 s, 80 s, 160 s, then every 300 s.
		if got := len(n.evictions); got != 6 || !slices.Contains(n.Holds(), decide.HoldBackingOff) {
			t.Errorf("%d requests in 10 minutes, want 6; holds %v, want it said that it backs off", got, n.Holds())
		}
	})
}

// A webhook denies and then allows: the pod is in back-off for a minute, and then evicted.
func TestDeniedPodIsRetriedAfterAWhile(t *testing.T) {
	story(t, func(n *world) {
		n.runs("denied 950/100")
		n.answers(map[string]evict.Outcome{"": evict.Denied})
		n.After(30*time.Second, func() { n.answer = nil })
		n.watch(3 * time.Minute)
		n.evicted("denied", "denied")
		if after := n.evictedAt()[0]; after < time.Minute || len(n.pods) != 0 {
			t.Errorf("evicted after %v, want a minute; %d pods are left", after, len(n.pods))
		}
	})
}

// Guards invariant 8 in the loop: the decision of a dry run is otherwise equal.
func TestInvariant08DryRunDecidesTheSame(t *testing.T) {
	t.Parallel()
	decided := map[bool]decide.Decision{}
	for _, dry := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			n := newWorld(t)
			n.runs("greedy 500/100", "modest 450/500")
			n.policy.DryRun = dry
			n.watch(10 * time.Second)
			n.evicted("greedy")
			if decided[dry] = n.decisions[0]; n.evictions[0].DryRun != dry {
				t.Errorf("the request %+v", n.evictions[0])
			}
		})
	}
	wet, dry := decided[false], decided[true]
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
	all := []time.Duration{0, time.Millisecond, 500 * time.Millisecond, 5 * time.Second, 24 * time.Second}
	each(t, all, func(n *world, after time.Duration) {
		n.ends = 25 * time.Second
		n.runs("greedy 500/100", "also 450/100")
		n.watch(time.Millisecond + after)
		n.watch(time.Minute)
		n.evicted("greedy")
	})
}

// Guards invariant 10: after SIGTERM no new eviction starts.
func TestInvariant10NoEvictionAfterTheEnd(t *testing.T) {
	story(t, func(n *world) {
		n.runs("first 500/100", "second 450/100")
		n.slow = time.Second
		n.answers(map[string]evict.Outcome{"": evict.BlockedByBudget})
		n.watch(500 * time.Millisecond)
		n.evicted("first")
		if len(n.decisions) != 1 || len(n.decisions[0].Attempts) != 1 {
			t.Errorf("the request that was under way is not on record: %+v", n.decisions)
		}
	})
}

func TestRequestUnderWayAtTheEndIsBounded(t *testing.T) {
	story(t, func(n *world) {
		n.runs("first 950/100")
		n.slow = time.Hour
		n.watch(time.Second)
		if took := time.Since(n.began); took > time.Second+execute.ShutdownWait {
			t.Errorf("the end took %v", took)
		}
	})
}

func TestSlowServerDoesNotStopTheWatch(t *testing.T) {
	story(t, func(n *world) {
		n.runs("greedy 950/100")
		n.slow = 30 * time.Second
		n.watch(20 * time.Second)
		if n.samples < 100 || len(n.intents) != 1 {
			t.Errorf("%d samples in 20 s while a request hangs, want at least 100; %d requests under way together, want 1", n.samples, len(n.intents))
		}
	})
}

// No victim helps: so many go as the limits allow, and the record names the limit.
func TestLimits(t *testing.T) {
	stories(t, map[string]func(n *world){
		"evictionsPerMinute": func(n *world) { n.limit(2, 0) },
		"perOwnerPerHour": func(n *world) {
			n.limit(0, 2)
			for _, p := range n.pods {
				ofOwner(p.api)
			}
		},
	}, func(n *world, limit string, sets func(n *world)) {
		n.ends = time.Second
		n.runs("a 1/0", "b 1/0", "c 1/0", "d 1/0", "e 1/0")
		n.host = 990 * Mebi
		sets(n)
		n.watch(50 * time.Second)
		n.evicted("a", "b")
		n.says(decide.HoldLimitReached, limit)
	})
}

func TestAliveAndReady(t *testing.T) {
	story(t, func(n *world) {
		if n.start(); n.agent.Ready() == nil || n.agent.Alive(time.Now()) != nil {
			t.Error("ready or dead before the first sample")
		}
		n.on(time.Minute)
		if err := n.agent.Ready(); err != nil || n.agent.Alive(time.Now()) != nil {
			t.Errorf("ready: %v, alive: %v", err, n.agent.Alive(time.Now()))
		}
		if n.agent.Alive(time.Now().Add(time.Minute)) == nil {
			t.Error("alive a minute after the last tick")
		}
		n.unsynced = true
		if err := n.agent.Ready(); err == nil || err.Error() != "the node's pods are not known yet" {
			t.Errorf("ready without the node's pods: %v", err)
		}
	})
}

// A loop is ready while the last sample was complete. A stale one does not change that.
func TestReadyFollowsTheSamples(t *testing.T) {
	story(t, func(n *world) {
		n.mayBeStale = true
		stale, last := false, time.Time{}
		n.sampled = func(s *pressure.Sample) {
			if stale {
				s.Time = last
			}
			last = s.Time
		}
		n.start()
		ctx, stop := context.WithTimeout(n.t.Context(), time.Minute)
		defer stop()
		go func() { _ = n.agent.Run(ctx) }()
		for i, step := range []struct{ unknown, stale, ready bool }{
			{false, false, true}, {true, true, true}, {true, false, false}, {false, true, false}, {false, false, true},
		} {
			n.mu.Lock()
			if n.unknown, stale = nil, step.stale; step.unknown {
				n.unknown = errPlanted()
			}
			n.mu.Unlock()
			if time.Sleep(2 * time.Second); (n.agent.Ready() == nil) != step.ready {
				t.Errorf("step %d: ready: %v; want %v", i, n.agent.Ready(), step.ready)
			}
		}
	})
}

func TestFirstTickThatHangsIsNoticed(t *testing.T) {
	story(t, func(n *world) {
		hang := make(chan struct{})
		n.sampled = func(*pressure.Sample) { <-hang }
		n.start()
		ctx, stop := context.WithCancel(n.t.Context())
		done := make(chan error, 1)
		go func() { done <- n.agent.Run(ctx) }()
		time.Sleep(time.Minute)
		if n.agent.Alive(time.Now()) == nil {
			t.Error("alive although the first tick has hung for a minute")
		}
		stop()
		close(hang)
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// A soft threshold is not dealt with beside the hard one of the same signal.
func TestHardThresholdSpeaksForTheSignal(t *testing.T) {
	story(t, func(n *world) {
		n.unsynced = true
		n.runs("greedy 950/100")
		n.threshold(pressure.MemoryAvailable, pressure.Fraction(0.2), false, time.Millisecond)
		n.watch(time.Second)
		if soft := n.decided(func(d *decide.Decision) bool { return !d.Pressure.Threshold.Hard }); len(soft) > 0 {
			t.Errorf("the soft threshold was dealt with too: %+v", soft[0])
		}
	})
}

func TestReloadPutsThePolicyInForce(t *testing.T) {
	story(t, func(n *world) {
		n.runs("greedy 850/100") // 150 available: calm at a tenth
		n.start()
		n.reloads(10*time.Second, func(p *agent.Policy) {
			p.Thresholds = []pressure.Threshold{{Signal: pressure.MemoryAvailable, Quantity: pressure.Fraction(0.2), Hard: true}}
		})
		n.on(11 * time.Second)
		n.evicted("greedy")
	})
}

// Guards invariant 1 in the loop: no eviction for a resource of which a reading is missing.
func TestInvariant01IncompleteReadingEvictsNoPod(t *testing.T) {
	story(t, func(n *world) {
		n.blind(pressure.AllocatableMemoryAvailable)
		n.evicted()
		n.held(decide.HoldIncompleteReading)
		if err := n.agent.Ready(); err == nil ||
			!strings.Contains(err.Error(), "allocatableMemory.available has no figure, and no pod is evicted for memory until it has one") ||
			!strings.Contains(err.Error(), "planted") {
			t.Errorf("ready is %v without a complete reading, want why there is none", err)
		}
	})
}

// One hung filesystem stopped the evictions for memory too, for as long as it hung, those that were under way among
// them.
func TestFaultHungFilesystemStopsNoMemoryEviction(t *testing.T) {
	all := []pressure.Signal{pressure.ImageFSAvailable, pressure.NodeFSInodesFree, pressure.PIDAvailable}
	each(t, all, func(n *world, signal pressure.Signal) {
		n.blind(signal)
		n.evicted("greedy")
		if err := n.agent.Ready(); err == nil || !strings.Contains(err.Error(), signal.String()+" has no figure") {
			n.t.Errorf("ready is %v, want that %v has no figure", err, signal)
		}
	})
}

// blind runs an agent for a minute on a node that is short of memory and one of whose other signals cannot be
// read.
func (n *world) blind(signal pressure.Signal) {
	n.runs("greedy 950/100")
	n.slow = time.Second
	n.threshold(signal, pressure.Absolute(1), true)
	n.sampled = n.blindAfter(signal, 0)
	n.watch(time.Minute)
}

// With a watch that is dead while evictions work, the pod that takes the node's memory is not
// listed, and its neighbours were evicted for it.
func TestFaultDeadWatchIsAHold(t *testing.T) {
	story(t, func(n *world) {
		n.runs("listed 60/10", "unlisted 900/0")
		n.hides("unlisted", func() bool { return n.staleWatch == nil })
		n.staleWatch = errPlanted()
		n.watch(2 * time.Minute)
		n.evicted()
		n.held(decide.HoldPodsStale)
		if err := n.agent.Ready(); err == nil || err.Error() != "no pod is evicted: planted" {
			t.Errorf("ready: %v", err)
		}
		n.staleWatch = nil
		n.on(2 * time.Second)
		n.evicted("unlisted")
	})
}

// hides keeps a pod from the list, unless it is listed; nil is never.
func (n *world) hides(name string, listed func() bool) {
	n.hidden = func(p *nodepods.Pod) bool { return p.Name == name && (listed == nil || !listed()) }
}

// The loop and the executor live in the time of their clock, which is years behind here: ticks
// come when it is stepped, and what is recorded has its times.
func TestTheLoopLivesByItsClock(t *testing.T) {
	story(t, func(n *world) {
		n.runs("greedy 960/10")
		began := time.Date(1999, 12, 31, 23, 59, 59, 0, time.UTC)
		n.mayBeStale = true // the clock stands still
		clock := clocktesting.NewFakeClock(began)
		n.start(func(o *agent.Options) { o.Clock = clock })
		ctx, stop := context.WithCancel(n.t.Context())
		go func() { _ = n.agent.Run(ctx) }()
		time.Sleep(time.Hour)
		if n.samples != 0 {
			t.Errorf("%d samples while the clock stood still", n.samples)
		}
		clock.Step(2 * time.Second)
		time.Sleep(time.Second) // a reading takes a moment
		stop()
		time.Sleep(time.Second)
		n.evicted("greedy")
		if d := n.last(); !d.Time.Equal(began.Add(2 * time.Second)) {
			t.Errorf("decided at %v, want 2 s after %v", d.Time, began)
		}
	})
}

// wakes runs an agent on a calm node, which pacing alone samples once a second, and returns when it has taken
// samples. First is called within the first.
func (n *world) wakes(wake <-chan struct{}, during time.Duration, first func()) (at []time.Duration) {
	n.memory(64 << 10) // far from the threshold even for the fastest allocator
	n.sampled = func(s *pressure.Sample) {
		if at = append(at, s.Time.Sub(n.began)); len(at) == 1 {
			first()
		}
	}
	n.watch(during, func(o *agent.Options) { o.Wake = wake })
	return at
}

func TestAWakeTakesASampleAtOnce(t *testing.T) {
	story(t, func(n *world) {
		wake := make(chan struct{}, 1)
		time.AfterFunc(300*time.Millisecond, func() { wake <- struct{}{} })
		got := n.wakes(wake, 1500*time.Millisecond, func() {})
		same(t, "samples", []time.Duration{0, 300 * time.Millisecond, 1300*time.Millisecond + time.Microsecond}, got)
	})
}

// The next one comes as soon as pacing allows any, not after its second.
func TestAWakeDuringATickIsNotLost(t *testing.T) {
	story(t, func(n *world) {
		wake := make(chan struct{}, 1)
		got := n.wakes(wake, time.Second, func() { wake <- struct{}{} })
		same(t, "samples", []time.Duration{0, n.policy.Pacing.Min + time.Microsecond}, got)
	})
}

// A wake-up that never stops must neither spin, which here ends the test's patience because time stands
// still, nor outrun pacing's minimum.
func TestAStormOfWakesKeepsTheMinimumInterval(t *testing.T) {
	story(t, func(n *world) {
		storm := make(chan struct{})
		close(storm)
		got := n.wakes(storm, time.Second, func() {})
		if len(got) < 99 || len(got) > 101 {
			t.Errorf("%d samples in 1 s, at %v; want one every 10 ms", len(got), got)
		}
		for i := 1; i < len(got); i++ {
			if rest := got[i] - got[i-1]; rest < n.policy.Pacing.Min {
				t.Fatalf("sample %d came %v after the one before", i, rest)
			}
		}
	})
}
