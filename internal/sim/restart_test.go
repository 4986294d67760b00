package sim

import (
	"context"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/evictd/evictd/internal/agent"
	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/nodepods"
	"github.com/evictd/evictd/internal/state"
	"github.com/evictd/evictd/internal/taint"
	"github.com/evictd/evictd/pkg/evict"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/usage"
)

// leaky makes the node one that is short of memory whichever pods are evicted: small pods with one owner each.
func (n *world) leaky(names ...string) {
	n.ends = time.Second
	for _, name := range names {
		n.Run(name, 2, 1)
	}
	n.host = 980 * Mebi
}

// An agent that is killed under pressure, again and again, evicts no more in a minute than one that is not.
func TestFaultRestartBeginsNoFreshMinute(t *testing.T) {
	story(t, func(n *world) {
		n.leaky("a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l")
		n.limit(3, 0)
		n.live(20 * time.Second)
		for range 4 {
			n.live(5 * time.Second)
		}
		n.evicted("a", "b", "c")
		n.says(decide.HoldLimitReached, "evictionsPerMinute")
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

// An incident continues after a restart: its victims before and after have one ID.
func TestIncidentGoesOnAfterARestart(t *testing.T) {
	story(t, func(n *world) {
		n.leaky("a", "b")
		n.limit(1, 0)
		n.live(5 * time.Second)
		n.live(2 * time.Minute)
		for _, d := range n.acted() {
			if d.Incident != n.decisions[0].Incident || d.Incident == "" {
				t.Errorf("a victim of incident %q, want all in one", d.Incident)
			}
		}
		if open := n.kept().Incidents; len(open) != 1 || len(open[0].Victims) != 2 {
			t.Errorf("open at the end: %+v, want one incident with both victims", open)
		}
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

// slowMemory takes as long as a store waits at most.
type slowMemory struct{ *File }

func (m slowMemory) Save(s any) func() {
	return func() {
		time.Sleep(state.Patience)
		m.File.Save(s)
	}
}

// A state that cannot be written stops no eviction, and neither does none.
func TestEvictionDoesNotWaitForItsState(t *testing.T) {
	stories(t, map[string]func(n *world) func(any) func(){
		"slow": func(n *world) func(any) func() { return slowMemory{n.file}.Save },
		"none": func(*world) func(any) func() { return func(any) func() { return func() {} } },
	}, func(n *world, _ string, memory func(n *world) func(any) func()) {
		n.runs("greedy 950/100")
		n.watch(state.Patience+10*time.Millisecond, func(o *agent.Options) { o.Save = memory(n) })
		n.evicted("greedy")
	})
}

// The steps of a tick at which the agent is killed.
const (
	beforeTheSample     = "before the sample"
	afterTheSample      = "after the sample"
	afterTheJudgement   = "after the judgement"
	beforeThePods       = "before the pods are listed"
	afterTheUsage       = "after the pods' usage is read"
	beforeTheSecondLook = "before the second look at the node"
	afterTheSecondLook  = "after the second look at the node"
	atTheIntent         = "when the intent is recorded"
	beforeTheRequest    = "before the request is sent"
	afterTheAnswer      = "after the API server's answer"
	beforeTheDecision   = "before the decision is recorded"
	afterTheDecision    = "after the decision is recorded"
	onTheNextTick       = "on the next tick, while the victim is in flight"
	// With their own features switched on.
	afterTheTaint  = "after the node has its taint"
	afterTheDelete = "after a delete that bypasses a budget"
)

func killSteps() []string {
	return []string{
		beforeTheSample, afterTheSample, afterTheJudgement, beforeThePods, afterTheUsage, beforeTheSecondLook,
		afterTheSecondLook, atTheIntent, beforeTheRequest, afterTheAnswer, beforeTheDecision, afterTheDecision, onTheNextTick,
		afterTheTaint, afterTheDelete,
	}
}

// gracelessSteps returns the steps at which a pod with a grace period of 0 may be in flight: the API server no longer
// lists it.
func gracelessSteps() []string {
	return []string{afterTheAnswer, beforeTheDecision, afterTheDecision, onTheNextTick, afterTheDelete}
}

// killable is what an agent has of the node, the API server and its state file. It is killed when its step is
// reached: from then on each goroutine of the agent ends where it touches one of them, and what it was about to do is
// not done.
type killable struct {
	*Node
	file      *File
	step      string
	killed    atomic.Bool
	collected bool // this tick has read the pods' usage
}

// alive ends the goroutine of an agent that was killed.
func (k *killable) alive() {
	if k.killed.Load() {
		runtime.Goexit()
	}
}

// reach kills the agent at its step.
func (k *killable) reach(step string) {
	if k.alive(); k.step == step {
		k.killed.Store(true)
		runtime.Goexit()
	}
}

// Sample reads the node: first in a tick, and once more before a request.
func (k *killable) Sample(now time.Time) pressure.Sample {
	before, after := beforeTheSample, afterTheSample
	if k.collected {
		before, after = beforeTheSecondLook, afterTheSecondLook
	}
	k.collected = false
	k.reach(before)
	sample := k.Node.Sample(now)
	k.reach(after)
	return sample
}

func (k *killable) Synced() bool {
	k.alive()
	return k.Node.Synced()
}

// List lists the pods that the API server has: one that was deleted with a grace period of 0 is gone there at once.
func (k *killable) List() []*nodepods.Pod {
	k.reach(beforeThePods)
	return slices.DeleteFunc(k.Node.List(), func(p *nodepods.Pod) bool { return k.removed(p.UID) })
}

// removed reports whether the API server has removed a pod that still runs.
func (k *killable) removed(uid string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	pod := k.pods[uid]
	return pod != nil && pod.leaving != nil && *pod.leaving.DeletionGracePeriodSeconds == 0
}

func (k *killable) Collect(into []usage.Pod) ([]usage.Pod, error) {
	k.alive()
	read, err := k.Node.Collect(into)
	k.reach(afterTheUsage)
	k.collected = true
	return read, err
}

func (k *killable) Evict(ctx context.Context, r evict.Request) evict.Result {
	k.reach(beforeTheRequest)
	result := evict.Result{Outcome: evict.Gone}
	if !k.removed(r.UID) {
		result = k.Node.Evict(ctx, r)
	}
	k.reach(afterTheAnswer)
	if result.Outcome == evict.Deleted {
		k.reach(afterTheDelete)
	}
	return result
}

func (k *killable) Look(ctx context.Context, r evict.Request) (evict.Outcome, error) {
	if k.alive(); k.removed(r.UID) {
		return evict.Gone, nil
	}
	return k.Node.Look(ctx, r)
}

func (k *killable) Budget(ctx context.Context, namespace, name string) (evict.Budget, error) {
	k.alive()
	return k.Node.Budget(ctx, namespace, name)
}

// Save writes the state file.
func (k *killable) Save(s any) func() {
	k.alive()
	return k.file.Save(s)
}

// killableTaints maintain the node's taints.
type killableTaints struct {
	agent.Taints
	*killable
}

func (t killableTaints) Want(w taint.Wanted) {
	t.alive()
	t.Taints.Want(w)
}

func (t killableTaints) Settled(ctx context.Context) error {
	t.alive()
	err := t.Taints.Settled(ctx)
	t.reach(afterTheTaint)
	return err
}

// killableRecorder records what the agent does.
type killableRecorder struct {
	recorder
	of *killable
}

func (r killableRecorder) Sample(_ *pressure.Sample, verdict *pressure.Verdict) {
	if len(verdict.Pressures) > 0 {
		r.of.reach(afterTheJudgement)
	}
}

func (r killableRecorder) Intent(d *decide.Decision, a *decide.Attempt) {
	r.of.reach(atTheIntent)
	r.recorder.Intent(d, a)
}

// Decision kills the agent at a decision that has evicted a pod, not at one that has not.
func (r killableRecorder) Decision(d *decide.Decision) {
	if d.Verb() == decide.Acted {
		r.of.reach(beforeTheDecision)
	}
	r.recorder.Decision(d)
	if d.Verb() == decide.Acted {
		r.of.reach(afterTheDecision)
	}
}

func (r killableRecorder) Ledger(_ time.Time, bookings []decide.Victim, _, _ int) {
	if len(bookings) > 0 {
		r.of.reach(onTheNextTick)
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
	case afterTheTaint:
		n.policy.TaintNode = true
	case afterTheDelete:
		n.policy.BestEffort = true
		n.refusesByBudget(nil)
		n.budgets = map[string]evict.Budget{"shop/large": {Desired: 1, Healthy: 1}, "shop/small": {Desired: 1, Healthy: 1}}
	}
	taints, first := &fakeTaints{}, &killable{Node: n.Node, file: n.file, step: step}
	n.runKillable(first, taints, &agent.State{})
	if !first.killed.Load() {
		n.t.Fatal("the agent did not come to the step")
	}
	n.file = n.file.Copy()
	remembered := n.kept()
	if !keeps {
		remembered = nil
	}
	n.runKillable(&killable{Node: n.Node, file: n.file}, taints, remembered)
	for _, pod := range []string{"large", "small"} {
		if there := n.pod(pod) != nil; there != (pod == "small") {
			n.t.Errorf("%s is there: %t; want the large pod alone evicted", pod, there)
		}
	}
	if counted := len(n.kept().Cooldown.Accepted) + len(n.inDoubt()); keeps && counted != 1 { // these will count as evictd's
		n.t.Errorf("%d evictions count against the limits, want the one: %+v", counted, n.kept())
	}
}

// runKillable lets an agent run for two minutes, or until it is killed.
func (n *world) runKillable(k *killable, taints agent.Taints, remembered *agent.State) {
	n.t.Helper()
	n.start(func(o *agent.Options) {
		o.Sample, o.Pods, o.Measure.Cgroups, o.Evictor, o.Save = k.Sample, k, k, k, k.Save
		o.Recorder, o.Taints, o.Remembered = killableRecorder{recorder{k.Node}, k}, killableTaints{taints, k}, remembered
	})
	ctx, stop := context.WithTimeout(n.t.Context(), 2*time.Minute)
	defer stop()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := n.agent.Run(ctx); err != nil {
			n.t.Errorf("running: %v", err)
		}
	}()
	<-ended
	synctest.Wait()
}
