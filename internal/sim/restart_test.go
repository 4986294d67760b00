package sim

import (
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/evictd/evictd/internal/agent"
	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/state"
	"github.com/evictd/evictd/pkg/evict"
)

// leaky makes the node one that is short of memory whichever pods are evicted: small pods with one owner each.
func (n *world) leaky(names ...string) {
	n.ends = time.Second
	for _, name := range names {
		n.Run(name, 2, 1)
	}
	n.host = 980 * Mebi
}

// An agent that is killed under pressure, again and again, evicts no more in a minute than one that is not. The incident
// goes on: its victims before and after have one ID.
func TestFaultRestartBeginsNoFreshMinute(t *testing.T) {
	story(t, func(n *world) {
		n.leaky("a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l")
		n.limit(3, 0)
		for range 8 {
			n.live(5 * time.Second)
		}
		n.evicted("a", "b", "c")
		n.says(decide.HoldLimitReached, "evictionsPerMinute")
		n.live(time.Minute)
		open := n.kept().Incidents
		if len(open) != 1 || len(open[0].Victims) != len(n.Victims()) || len(open[0].Victims) < 6 {
			t.Fatalf("open at the end: %+v, want one incident with all victims", open)
		}
		if others := n.decided(func(d *decide.Decision) bool { return d.Incident != open[0].ID }); len(others) > 0 {
			t.Errorf("a decision of incident %q, want all in one", others[0].Incident)
		}
	})
}

// Guards invariant 9: limits and back-offs hold on after a restart.
func TestInvariant09BackOffsHoldOnAfterARestart(t *testing.T) {
	story(t, func(n *world) {
		n.leaky("denied")
		n.answers(outcomes{"": evict.Denied})
		n.live(5 * time.Second)
		n.live(5 * time.Second)
		n.evicted("denied")
		n.live(time.Minute) // the back-off of a minute ends in it
		n.evicted("denied", "denied")
	})
}

// killedAtTheRequest answers a request as one whose process is killed while it is pending, and keeps the file of
// then.
func (n *world) killedAtTheRequest(arrives bool) (killed func() *File) {
	var file *File
	n.answer = func(r evict.Request) evict.Result {
		if file = n.file.Copy(); arrives {
			n.terminate(r.UID)
		}
		return evict.Result{Outcome: evict.Unconfirmed, NoResponse: true, Pending: true}
	}
	return func() *File { return file }
}

// Guards invariant 9: a process that is killed while its request is pending, before it reached the API server or
// after, has left a record of it. The next process evicts the same pod, or takes its eviction for its own.
func TestInvariant09RequestInDoubtIsReadFirst(t *testing.T) {
	type variant struct {
		arrives bool
		grace   int64
		want    []string
	}
	stories(t, map[string]variant{
		"it never arrived":               {false, 30, []string{"greedy"}},
		"it was carried out":             {true, 30, nil},
		"it was carried out and is gone": {true, 0, nil},
	}, func(n *world, _ string, c variant) {
		n.runs("also 450/100")
		n.Run("greedy", 500, 100, grace(c.grace))
		killed := n.killedAtTheRequest(false)
		n.evicts(20*time.Millisecond, "greedy")
		n.file = killed()
		if open := n.inDoubt(); len(open) != 1 || open[0].Name != "greedy" {
			n.t.Fatalf("in doubt when the request was sent: %+v", open)
		}
		n.evictions, n.answer = nil, nil
		if c.arrives {
			n.ends = 3 * time.Second
			n.terminate("uid-greedy")
		}
		// Another pod would be the first of the ranking by now.
		n.pod("also").memory, n.pod("greedy").memory = 480*Mebi, 470*Mebi
		n.live(time.Minute)
		n.evicted(c.want...)
		n.counts(1)
		if open := n.inDoubt(); len(open) > 0 {
			n.t.Errorf("in doubt after it was resolved: %+v", open)
		}
	})
}

// When the next process begins, a request without a response is older than the API server may take for one. The space
// of its pod is waited for, as after a start without a state, and a second restart forgets nothing of that. A pod that
// is there after that is evicted.
func TestFaultOldDiskRequestInDoubtIsNotWaitedFor(t *testing.T) {
	stories(t, map[bool][]string{true: {"large"}, false: {"large", "large"}}, func(n *world, arrives bool, want []string) {
		n.largeAndSmall(nodefs, always(90))
		n.collectsAfter(70 * time.Second)
		killed := n.killedAtTheRequest(arrives)
		n.watch(time.Second / 2)
		n.answer, n.file = nil, killed()
		time.Sleep(decide.DoubtLasts)
		n.live(5 * time.Second)
		n.live(50 * time.Second) // the note of the request is written over
		n.evicted("large")
		n.live(time.Minute)
		n.evicted(want...)
		n.counts(len(want))
		if open := n.inDoubt(); len(open) > 0 {
			n.t.Errorf("in doubt: %+v", open)
		}
	})
}

// Guards invariant 9: a victim of the process before is evictd's own, so that it can be ended sooner when hard
// pressure comes.
func TestInvariant09OwnVictimStaysOwn(t *testing.T) {
	story(t, func(n *world) {
		n.patientNode(3600)
		n.live(20 * time.Second)
		n.live(decide.HardPatience)
		same(t, "requests", []asked{{"patient", -1}, {"patient", 10}}, n.graces())
	})
}

// Guards invariant 9 for disks: a process is killed, before, while or after a victim ends, and the space comes back up to
// a minute after its victim's end. Nothing else is evicted for it, also where the pod was replaced, and its file with it.
func TestInvariant09DiskRestartEvictsNoSecond(t *testing.T) {
	type variant struct {
		after time.Duration
		keeps bool
	}
	all := map[string]variant{}
	for _, after := range []time.Duration{5 * time.Second, 11 * time.Second, 14 * time.Second, 30 * time.Second, 60 * time.Second} {
		all["after "+after.String()] = variant{after, true}
		all["after "+after.String()+" without its file"] = variant{after, false}
	}
	stories(t, all, func(n *world, _ string, c variant) {
		n.largeAndSmall(nodefs, always(90))
		n.collectsAfter(55 * time.Second)
		if n.live(c.after); c.keeps {
			n.live(3 * time.Minute)
		} else {
			n.watch(3*time.Minute, knowsNothing)
		}
		n.evicted("large")
	})
}

// The space of a victim from before the start is waited for, whenever the threshold is met: a rollout within a minute
// of its end, and one first reading at the line, took a second pod. A disk that would be full before is not.
func TestFaultStartWithoutStateAtTheLine(t *testing.T) {
	cases(t, nil, map[string]func(n *world){
		"a victim from before the start": func(n *world) {
			n.largeAndSmall(nodefs, steps(map[time.Duration]int64{0: 90, 20 * time.Second: 100, 21 * time.Second: 90}))
			n.collectsAfter(55 * time.Second)
			n.watch(20 * time.Second)
			n.watch(2*time.Minute, knowsNothing)
			n.evicted("large")
		},
		"a disk that fills": func(n *world) {
			n.largeAndSmall(nodefs, sloped(0, 30*time.Second, 95, 0))
			n.collectsAfter(55 * time.Second)
			n.watch(25*time.Second, knowsNothing)
			if got := n.Victims(); len(got) == 0 || got[0] != "large" {
				n.t.Errorf("evicted %v before the disk was full, want large first", got)
			}
		},
	})
}

// An agent that knows nothing of the time before evicts no pod for memory in its first ten seconds: replaced again
// and again, it would evict a pod each time. That is not one with an empty state.
func TestFaultRestartWithoutStateIsCareful(t *testing.T) {
	story(t, func(n *world) {
		n.leaky("a", "b", "c")
		n.limit(1, 0)
		for range 3 {
			n.watch(decide.ShownWithin-time.Second, knowsNothing)
		}
		n.evicted()
		n.watch(decide.ShownWithin+time.Second, knowsNothing)
		n.evicted("a")
	})
}

// A calm node's state is not written, and neither is it at each tick under pressure.
func TestNothingIsSavedWhereNothingChanges(t *testing.T) {
	stories(t, map[string]int64{"calm": 100, "an hour of pressure in which nothing happens": 950}, func(n *world, _ string, memory int64) {
		n.Run("protected", memory, 100, bare)
		n.watch(time.Hour)
		if n.file.saves > 2 { // when the incident begins, and at the end
			n.t.Errorf("saved %d times", n.file.saves)
		}
	})
}

// A state that is written slowly, as long as a store waits at most, stops no eviction.
func TestEvictionDoesNotWaitForItsState(t *testing.T) {
	story(t, func(n *world) {
		n.runs("greedy 950/100")
		n.watch(state.Patience+10*time.Millisecond, func(o *agent.Options) {
			o.Save = func(any) func() { return func() { time.Sleep(state.Patience) } }
		})
		n.evicted("greedy")
	})
}

// killSteps returns the steps of a tick at which the agent is killed. The last two are those of their own features.
func killSteps() []string {
	return append([]string{
		"before a sample", "after a sample", "after the judgement", "before the pods are listed", "after the pods' usage is read",
		"before the second look", "after the second look", "before the state is saved", "when the intent is recorded", "before the request is sent",
		"after the node has its taint",
	}, gracelessSteps()...)
}

// gracelessSteps returns the steps at which a pod with a grace period of 0 may be in flight: the API server no longer
// lists it.
func gracelessSteps() []string {
	return []string{
		"after the API server's answer", "before the decision is recorded", "after the decision is recorded",
		"on the next tick, while the victim is in flight", "after a delete that bypasses a budget",
	}
}

// killer kills an agent when its step is reached: from then on each goroutine of the agent ends where it comes to a
// step, and what it was about to do is not done.
type killer struct {
	step      string
	killed    atomic.Bool
	collected bool // this tick has read the pods' usage
}

func (k *killer) reach(step string) {
	if k.killed.Load() {
		runtime.Goexit()
	}
	switch step {
	case "after the pods' usage is read":
		k.collected = true
	case "before a sample", "after a sample":
		if k.collected {
			k.collected = step == "before a sample"
			step = strings.Replace(step, "a sample", "the second look", 1)
		}
	}
	if k.step == step {
		k.killed.Store(true)
		runtime.Goexit()
	}
}

// Guards invariant 9: an agent is killed at a step of its tick and restarted, with and without the state that it had
// written. The node is short of one pod's worth of memory, and the victim takes three seconds to end. Exactly one pod
// is evicted, by either of the two agents.
func TestInvariant09KilledAtEachStep(t *testing.T) {
	t.Parallel()
	steps := func(how string, steps []string, seconds int64, keeps bool) {
		for _, step := range steps {
			t.Run(step+how, func(t *testing.T) { story(t, func(n *world) { n.killedAt(step, seconds, keeps) }) })
		}
	}
	steps("", killSteps(), 30, true)
	steps(", in a new pod", killSteps(), 30, false)
	steps(", without a grace period", gracelessSteps(), 0, true)
}

func (n *world) killedAt(step string, seconds int64, keeps bool) {
	n.memory(2100)
	owner := func(name string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.OwnerReferences[0].Name = name }
	}
	n.Run("large", 1024, 100, grace(seconds), owner("one"))
	n.Run("small", 700, 100, grace(seconds), owner("two"))
	n.host, n.ends = 76*Mebi, 3*time.Second // 300 MiB are available
	n.line(500)
	n.policy.Pacing.Min = 100 * time.Millisecond
	switch step { // with its feature
	case "after the node has its taint":
		n.policy.TaintNode = true
	case "after a delete that bypasses a budget":
		n.policy.BestEffort = true
		n.refusesByBudget(nil)
		n.budgets = map[string]evict.Budget{"shop/large": {Desired: 1, Healthy: 1}, "shop/small": {Desired: 1, Healthy: 1}}
	}
	n.option = func(o *agent.Options) {
		o.Taints = &fakeTaints{then: func() { n.reach("after the node has its taint") }}
	}
	k := &killer{step: step}
	n.reached = k.reach
	var loop sync.WaitGroup
	loop.Go(func() { n.watch(2 * time.Minute) })
	loop.Wait()
	synctest.Wait()
	if !k.killed.Load() {
		n.t.Fatal("the agent did not come to the step")
	}
	n.reached = nil
	remembered := n.kept()
	if !keeps {
		remembered = nil
	}
	n.watch(2*time.Minute, func(o *agent.Options) { o.Remembered = remembered })
	for _, pod := range []string{"large", "small"} {
		if there := n.pod(pod) != nil; there != (pod == "small") {
			n.t.Errorf("%s is there: %t; want the large pod alone evicted", pod, there)
		}
	}
	if counted := len(n.kept().Cooldown.Accepted) + len(n.inDoubt()); keeps && counted != 1 { // these will count as evictd's
		n.t.Errorf("%d evictions count against the limits, want the one: %+v", counted, n.kept())
	}
}
