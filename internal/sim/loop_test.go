package sim

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/evictd/evictd/internal/agent"
	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/measure"
	"github.com/evictd/evictd/pkg/evict"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
)

// A calm node's pods are measured now and then, so that the first decision finds everything open, and what
// cannot be read is known before it is needed.
func TestCalmNode(t *testing.T) {
	cases(t, func(n *world) { n.runs("greedy 500/100") }, map[string]func(n *world){
		"nothing is sent or recorded": func(n *world) {
			n.evicts(time.Hour)
			n.held()
			if n.samples < 3600 || n.collects != 120 {
				n.t.Errorf("%d samples, measured %d times in an hour; want one a second, and 120", n.samples, n.collects)
			}
		},
		"pods that cannot be read": func(n *world) {
			n.unread = errPlanted()
			n.watch(time.Second)
			same(n.t, "reported before it is needed", []string{measure.SourceUsage}, n.readFault)
		},
	})
}

func TestEachHoldIsNamed(t *testing.T) {
	stories(t, map[decide.Hold]func(n *world){
		decide.HoldPodsNotSynced: func(n *world) { // the hard threshold speaks for the signal
			n.unsynced = true
			n.threshold(pressure.MemoryAvailable, pressure.Fraction(0.2), false)
		},
		decide.HoldUsageUnknown: func(n *world) { n.unread = errPlanted() },
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
		n.evicts(5 * time.Millisecond)
		n.held(want)
		if d := n.decisions; len(d) != 1 || !d[0].Pressure.Threshold.Hard {
			n.t.Errorf("decisions %+v, want one for the hard threshold", d)
		}
	})
}

// Guards invariant 4: one victim at a time; the next one only when the pods in flight cannot free
// enough.
func TestInvariant04OneVictimAtATime(t *testing.T) {
	many := []string{"first 300/0", "second 200/0", "third 200/0", "within 250/300"}
	few := []string{"first 60/0", "second 50/0", "third 40/0"} // 20 available, 100 wanted
	type variant struct {
		pods   []string
		host   int64
		behind bool // the watch
		want   []string
	}
	stories(t, map[string]variant{
		"the first suffices":                   {many, 0, false, []string{"first"}},
		"it does not":                          {few, 830, false, []string{"first", "second"}},
		"it does not, and the watch is behind": {few, 830, true, []string{"first", "second"}},
	}, func(n *world, _ string, c variant) {
		n.ends, n.behind = 25*time.Second, c.behind
		n.runs(c.pods...)
		n.host = c.host * Mebi
		n.evicts(20*time.Second, c.want...)
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
		n.goesOn(time.Millisecond, "first")
	})
}

// Guards invariant 6: a refusal is an outcome, and the next candidate is tried in the same tick.
func TestInvariant06RefusalGoesOnToTheNext(t *testing.T) {
	story(t, func(n *world) {
		n.runs("guarded 500/100", "free 450/100")
		n.answers(outcomes{"guarded": evict.BlockedByBudget})
		n.evicts(time.Minute, "guarded", "free")
		if d := n.decisions[0]; len(d.Attempts) != 2 || d.Verb() != decide.Acted || d.Victim().Entry.Pod.Name != "free" {
			t.Errorf("one decision should hold both attempts: %+v", d)
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
			n.Run("finished", 0, 0, byKubelet)
			n.policy.DryRun = dry
			n.evicts(10*time.Second, "greedy")
			if decided[dry] = n.decisions[0]; n.evictions[0].DryRun != dry {
				t.Errorf("the request %+v", n.evictions[0])
			}
		})
	}
	wet, dry := decided[false], decided[true]
	if wet.Victim().Result.Outcome != evict.Evicted || dry.Victim().Result.Outcome != evict.WouldEvict {
		t.Errorf("outcomes %v and %v", wet.Victim().Result.Outcome, dry.Victim().Result.Outcome)
	}
	if wet.Victim().Entry.Position != 1 || len(wet.Ranking.Candidates) != 2 || len(wet.Ranking.Protected) > 0 {
		t.Errorf("the record does not tell the story: %+v", wet)
	}
	dry.DryRun = false
	dry.Attempts[0].Result.Outcome = evict.Evicted
	if diff := cmp.Diff(wet, dry, cmpopts.EquateComparable(pressure.Quantity{}, pressure.Amounts{}), cmpopts.IgnoreUnexported(rank.Entry{})); diff != "" {
		t.Errorf("wet against dry (-wet +dry):\n%s", diff)
	}
}

// Guards invariant 9: after a restart at any point no second pod is evicted for the same deficit.
func TestInvariant09RestartEvictsNoPodTwice(t *testing.T) {
	each(t, []time.Duration{0, time.Millisecond, 500 * time.Millisecond, 5 * time.Second, 24 * time.Second}, func(n *world, after time.Duration) {
		n.ends = 25 * time.Second
		n.runs("greedy 500/100", "also 450/100")
		n.watch(time.Millisecond + after)
		n.evicts(time.Minute, "greedy")
	})
}

// Guards invariant 10: after SIGTERM no new eviction starts.
func TestInvariant10NoEvictionAfterTheEnd(t *testing.T) {
	story(t, func(n *world) {
		n.runs("first 500/100", "second 450/100")
		n.slow = time.Second
		n.answers(outcomes{"": evict.BlockedByBudget})
		n.evicts(500*time.Millisecond, "first")
		if len(n.decisions) != 1 || len(n.decisions[0].Attempts) != 1 {
			t.Errorf("the request that was under way is not on record: %+v", n.decisions)
		}
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
		hang := make(chan struct{})
		n.sampled = func(*pressure.Sample) { <-hang }
		n.start()
		defer n.background()()
		defer close(hang)
		if time.Sleep(time.Minute); n.agent.Alive(time.Now()) == nil {
			t.Error("alive although the first tick has hung for a minute")
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
		defer n.background()()
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

// Guards invariant 1 in the loop: no eviction for a resource of which a reading is missing. One hung filesystem stopped
// the evictions for memory too, for as long as it hung, those that were under way among them.
func TestInvariant01IncompleteReadingEvictsNoPod(t *testing.T) {
	stories(t, map[pressure.Signal][]string{
		pressure.AllocatableMemoryAvailable: nil,
		pressure.KubeletMemoryAvailable:     nil,
		pressure.ImageFSAvailable:           {"greedy"},
		pressure.NodeFSInodesFree:           {"greedy"},
		pressure.PIDAvailable:               {"greedy"},
	}, func(n *world, signal pressure.Signal, want []string) {
		n.runs("greedy 950/100")
		n.slow = time.Second
		n.threshold(signal, pressure.Absolute(1), true)
		n.sampled = n.blindAfter(signal, 0)
		n.evicts(time.Minute, want...)
		says := signal.String() + " has no figure"
		if want == nil {
			n.held(decide.HoldIncompleteReading)
			says += ", and no pod is evicted for its resource until it has one"
		}
		if err := n.agent.Ready(); err == nil || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), "planted") {
			n.t.Errorf("ready is %v without a complete reading, want why there is none", err)
		}
	})
}

// With a watch that is dead while evictions work, the pod that takes the node's memory is not
// listed, and its neighbours were evicted for it.
func TestFaultDeadWatchIsAHold(t *testing.T) {
	story(t, func(n *world) {
		n.runs("listed 60/10", "unlisted 900/0")
		n.hides("unlisted", func() bool { return n.staleWatch == nil })
		n.staleWatch = errPlanted()
		n.evicts(2 * time.Minute)
		n.held(decide.HoldPodsStale)
		if err := n.agent.Ready(); err == nil || err.Error() != "no pod is evicted: planted" {
			t.Errorf("ready: %v", err)
		}
		n.staleWatch = nil
		n.goesOn(2*time.Second, "unlisted")
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

// A wake-up takes a sample at once, or as soon as pacing allows any where it comes during a tick. One that never stops
// must neither spin, which here ends the test's patience because time stands still, nor outrun pacing's minimum.
func TestAWakeTakesASampleAtOnce(t *testing.T) {
	wake := func() (chan struct{}, func()) {
		c := make(chan struct{}, 1)
		return c, func() { c <- struct{}{} }
	}
	const moment = time.Microsecond // of a reading
	cases(t, nil, map[string]func(n *world){
		"in a pause": func(n *world) {
			c, now := wake()
			time.AfterFunc(300*time.Millisecond, now)
			got := n.wakes(c, 1500*time.Millisecond, func() {})
			same(n.t, "samples", []time.Duration{0, 300 * time.Millisecond, 1300*time.Millisecond + moment}, got)
		},
		"during a tick": func(n *world) {
			c, now := wake()
			got := n.wakes(c, time.Second, now)
			same(n.t, "samples", []time.Duration{0, n.policy.Pacing.Min + moment}, got)
		},
		"all the time": func(n *world) {
			storm := make(chan struct{})
			close(storm)
			got := n.wakes(storm, time.Second, func() {})
			if len(got) < 99 || len(got) > 101 {
				n.t.Errorf("%d samples in 1 s, at %v; want one every 10 ms", len(got), got)
			}
			for i := 1; i < len(got); i++ {
				if rest := got[i] - got[i-1]; rest < n.policy.Pacing.Min {
					n.t.Fatalf("sample %d came %v after the one before", i, rest)
				}
			}
		},
	})
}
