package agent

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/evictd/evictd/pkg/evict"
	"github.com/evictd/evictd/pkg/pressure"
)

// slowRefusals is a node that is short of 30 MiB, and whose first candidate a webhook
// refuses after ten seconds.
func slowRefusals() *fakeNode {
	n := newFakeNode(1000)
	n.run("guarded", 300, 10)
	n.run("next", 290, 10)
	n.run("small", 280, 10)
	n.host, n.slow, n.ends = 60*mebi, 10*time.Second, 25*time.Second
	n.answer = func(r evict.Request) evict.Result {
		if r.Name == "guarded" {
			return evict.Result{Outcome: evict.Denied}
		}
		return evict.Result{Outcome: evict.Evicted}
	}
	return n
}

// Guards invariant 4: what begins to leave while a request is under way is relied on too.
func TestWalkEndsWhenEnoughBeginsToLeave(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		holds   int64
		leaves  time.Duration
		victims []string
	}{
		{"a pod that suffices", 280, 2 * time.Second, []string{"guarded"}},
		{"a moment before the answer", 280, 9*time.Second + 500*time.Millisecond, []string{"guarded"}},
		{"a pod that is too small", 20, 2 * time.Second, []string{"guarded", "next"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n := slowRefusals()
				n.host += 280*mebi - test.holds*mebi
				n.pods["uid-small"].memory = test.holds * mebi
				n.after(test.leaves, func() { n.terminate("uid-small") })
				watch(t, n, hardPolicy(), 25*time.Second)
				n.wantVictims(t, test.victims...)
				if said := strings.Contains(n.decisions[0].Detail, "in flight should free"); said != (len(test.victims) == 1) {
					t.Errorf("the record of the plan: %q", n.decisions[0].Detail)
				}
			})
		})
	}
}

// TestWalkReadsCgroupsNowAndThen: while a plan is carried out, the cgroups are read now and then,
// not at each of a hundred ticks a second: for a look at the plan, and to stay warm.
func TestWalkReadsCgroupsNowAndThen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := slowRefusals()
		policy := hardPolicy()
		policy.Pacing.Max = policy.Pacing.Min
		watch(t, n, policy, 9*time.Second)
		if most := int(9*time.Second/LookEvery) + 2 + 3; n.collects > most || n.samples < 2*most {
			t.Errorf("the cgroups were read %d times in 9 s and %d samples, want %d at most", n.collects, n.samples, most)
		}
	})
}

// The watch may tell of the own victim before the answer comes: it is booked as what it is.
func TestVictimThatIsSeenBeforeItsAnswerIsEvictdsOwn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := slowRefusals()
		n.ends = time.Hour
		n.answer = nil
		n.after(2*time.Second, func() { n.terminate("uid-guarded") })
		a := newAgent(t, n, hardPolicy())
		runFor(t, a, 15*time.Second)
		n.wantVictims(t, "guarded")
		if b := a.victims.All(); len(b) != 1 || b[0].Signal != pressure.MemoryAvailable.String() || b[0].GraceSeconds != 30 {
			t.Errorf("in flight: %+v, want evictd's own victim", b)
		}
	})
}

// softAndHard is a policy with a soft threshold of a fifth above hardPolicy's.
func softAndHard() Policy {
	policy := hardPolicy()
	policy.HardGrace = 3
	policy.Thresholds = append(policy.Thresholds, pressure.Threshold{Signal: pressure.MemoryAvailable, Quantity: pressure.Fraction(0.2)})
	return policy
}

func TestHardPressureEndsASoftWalk(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := slowRefusals()
		n.slow = 900 * time.Millisecond // less than hangsAfter
		n.host -= 80 * mebi             // soft
		n.after(500*time.Millisecond, func() { n.host += 80 * mebi })
		watch(t, n, softAndHard(), 15*time.Second)
		n.wantVictims(t, "guarded", "next")
		if d := n.decisions[0]; d.Pressure.Threshold.Hard || !strings.Contains(d.Detail, "the hard threshold of memory.available was met meanwhile") {
			t.Errorf("the record of the soft plan: %+v", d)
		}
		if grace := n.evictions[1].GraceSeconds; grace == nil || *grace != 3 {
			t.Errorf("the second was evicted with the grace period %v, want that of hard pressure", grace)
		}
	})
}

// TestFaultHangingSoftRequestIsWithdrawn: a soft request that hangs in a webhook is withdrawn once
// a hard threshold is met. It may still be carried out: the same pod is evicted again, with the
// hard grace period.
func TestFaultHangingSoftRequestIsWithdrawn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := slowRefusals()
		n.slow, n.answer = 30*time.Second, nil
		n.host -= 80 * mebi // soft
		n.after(2*time.Second, func() {
			n.host += 80 * mebi
			n.slow = 0 // the webhook is itself again
		})
		start := time.Now()
		watch(t, n, softAndHard(), 5*time.Second)
		n.wantVictims(t, "guarded")
		if len(n.evictions) == 0 {
			return
		}
		if grace := n.evictions[0].GraceSeconds; grace == nil || *grace != 3 {
			t.Errorf("it was evicted with the grace period %v, want that of hard pressure", grace)
		}
		first := n.decisions[0]
		if last := first.Attempts[len(first.Attempts)-1]; last.Result.Outcome != evict.Unconfirmed || !strings.Contains(last.Result.Message, "was withdrawn") {
			t.Errorf("the record of the soft plan: %+v", last)
		}
		if took := n.last(t).Time.Sub(start); took > 2500*time.Millisecond {
			t.Errorf("the hard decision was made after %v, want at once", took)
		}
	})
}

// TestHardPressureThatWasThereBeforeDoesNotEndASoftWalk: a hard threshold of another signal that
// was already met had its decision, without a victim: the soft plan continues.
func TestHardPressureThatWasThereBeforeDoesNotEndASoftWalk(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := slowRefusals()
		n.slow = 4 * time.Second
		n.host -= 80 * mebi // soft
		policy := softAndHard()
		policy.Thresholds = append(policy.Thresholds, pressure.Threshold{
			Signal: pressure.NodeFSAvailable, Quantity: pressure.Absolute(100), Hard: true,
		})
		a := newAgent(t, n, policy)
		a.options.Sampler = &blindLater{n, pressure.NodeFSAvailable, 1 << 30} // 9 are available
		runFor(t, a, 9*time.Second)
		n.wantVictims(t, "guarded", "next")
		for _, d := range n.decisions {
			if strings.Contains(d.Detail, "met meanwhile") {
				t.Errorf("the plan was interrupted: %+v", d)
			}
		}
	})
}

// TestFaultHeldHardPressureEndsASoftWalk: a soft plan begins while a hard pressure is held, and its
// request hangs in a webhook. Once the hard pressure is no longer held, the plan is cancelled.
func TestFaultHeldHardPressureEndsASoftWalk(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		setUp func(*hooked)
		from  time.Duration // when the hold is over
		want  string
	}{
		"the pods' use could not be read": {func(h *hooked) {
			h.host, h.unread = 230*mebi, errPlanted()
			h.after(3*time.Second, func() { h.unread = nil })
		}, 3 * time.Second, "next"},
		"what was in flight sufficed": {func(h *hooked) {
			h.stubborn = true
			h.after(10*time.Second, func() { h.host = 550 * mebi })
		}, 10 * time.Second, "small"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				h := newHooked()
				test.setUp(h)
				start := time.Now()
				live(t, h.fakeNode, nil, h.policy(), 20*time.Second, h.parts)
				if victim, after := h.firstVictim(start.Add(test.from)); victim != test.want || after > 2*time.Second {
					t.Errorf("the victim is %q after %v, want %s at once; holds: %v", victim, after, test.want, h.holds())
				}
			})
		})
	}
}
