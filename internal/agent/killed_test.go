package agent

import (
	"context"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/nodepods"
	"github.com/evictd/evictd/internal/taint"
	"github.com/evictd/evictd/pkg/evict"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/usage"
)

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

// gracelessSteps returns the steps at which a pod with a grace period of 0 may be in flight:
// the API server no longer lists it.
func gracelessSteps() []string {
	return []string{afterTheAnswer, beforeTheDecision, afterTheDecision, onTheNextTick, afterTheDelete}
}

// killable is what an agent has of the node, the API server and its state file. It is killed when its
// step is reached: from then on each goroutine of the agent ends where it touches one of them, and
// what it was about to do is not done.
type killable struct {
	*fakeNode

	file      *file // nil keeps nothing
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
	sample := k.fakeNode.Sample(now)
	k.reach(after)
	return sample
}

func (k *killable) Synced() bool {
	k.alive()
	return k.fakeNode.Synced()
}

// List lists the pods that the API server has: one that was deleted with a grace period of 0 is gone
// there at once.
func (k *killable) List() []*nodepods.Pod {
	k.reach(beforeThePods)
	return slices.DeleteFunc(k.fakeNode.List(), func(p *nodepods.Pod) bool { return k.removed(p.UID) })
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
	read, err := k.fakeNode.Collect(into)
	k.reach(afterTheUsage)
	k.collected = true
	return read, err
}

func (k *killable) Evict(ctx context.Context, r evict.Request) evict.Result {
	k.reach(beforeTheRequest)
	result := evict.Result{Outcome: evict.Gone}
	if !k.removed(r.UID) {
		result = k.fakeNode.Evict(ctx, r)
	}
	k.reach(afterTheAnswer)
	if result.Outcome == evict.Deleted {
		k.reach(afterTheDelete)
	}
	return result
}

func (k *killable) Look(ctx context.Context, r evict.Request) (evict.Fate, error) {
	if k.alive(); k.removed(r.UID) {
		return evict.Ended, nil
	}
	return k.fakeNode.Look(ctx, r)
}

func (k *killable) Budget(ctx context.Context, namespace, name string) (evict.Budget, error) {
	k.alive()
	return k.fakeNode.Budget(ctx, namespace, name)
}

// Save writes the state file.
func (k *killable) Save(s any) func() {
	k.alive()
	return k.file.Save(s)
}

// killableTaints maintain the node's taints.
type killableTaints struct {
	Taints
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
	if d.Verb == decide.Acted {
		r.of.reach(beforeTheDecision)
	}
	r.recorder.Decision(d)
	if d.Verb == decide.Acted {
		r.of.reach(afterTheDecision)
	}
}

func (r killableRecorder) Ledger(_ time.Time, bookings []decide.Victim, _, _ int) {
	if len(bookings) > 0 {
		r.of.reach(onTheNextTick)
	}
}

// Guards invariant 9: an agent is killed at a step of its tick and restarted, with and
// without the state that it had written. The node is short of one pod's worth of memory, and
// the victim takes three seconds to end. Exactly one pod is evicted, by either of the two
// agents.
func TestInvariant09KilledAtEachStep(t *testing.T) {
	t.Parallel()
	for _, step := range killSteps() {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { killedAt(t, step, &file{t: t}, func(*corev1.Pod) {}) })
		})
		t.Run(step+", in a new pod", func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { killedAt(t, step, nil, func(*corev1.Pod) {}) })
		})
	}
	for _, step := range gracelessSteps() {
		t.Run(step+", without a grace period", func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				killedAt(t, step, &file{t: t}, func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = new(int64) })
			})
		})
	}
}

func killedAt(t *testing.T, step string, f *file, change func(*corev1.Pod)) {
	t.Helper()
	n, policy := newFakeNode(2100), hardPolicy()
	n.run("large", 1024, 100, change, workload("one"))
	n.run("small", 700, 100, change, workload("two"))
	n.host, n.ends = 76*mebi, 3*time.Second // 300 MiB are available
	policy.Thresholds[0].Quantity = pressure.Absolute(500 * mebi)
	policy.Pacing.Min = 100 * time.Millisecond
	taints := &fakeTaints{diary: &diary{}}
	switch step { // with its feature
	case afterTheTaint:
		policy.TaintNode = true
	case afterTheDelete:
		policy.BestEffort, n.answer = true, n.keeps(nil)
		n.budgets = map[string]evict.Budget{"shop/large": {Desired: 1, Healthy: 1}, "shop/small": {Desired: 1, Healthy: 1}}
	}
	first := &killable{fakeNode: n, file: f, step: step}
	first.run(t, policy, taints)
	if !first.killed.Load() {
		t.Fatal("the agent did not come to the step")
	}
	second := &killable{fakeNode: n, file: f}
	if f != nil {
		second.file = f.copied()
	}
	second.run(t, policy, taints)
	for _, pod := range []string{"large", "small"} {
		if _, there := n.pods["uid-"+pod]; there != (pod == "small") {
			t.Errorf("%s is there: %t; want the large pod alone evicted", pod, there)
		}
	}
	if f == nil {
		return
	}
	kept := second.file.load()
	if counted := len(kept.Cooldown.Accepted) + len(inDoubt(kept)); counted != 1 { // these will count as evictd's
		t.Errorf("%d evictions count against the limits, want the one: %+v", counted, kept)
	}
}

// run lets an agent run for two minutes, or until it is killed.
func (k *killable) run(t *testing.T, policy Policy, taints Taints) {
	t.Helper()
	options := Options{
		Policy: enforced(policy), Sampler: k, Pods: k, Cgroups: k, Evictor: k, Recorder: killableRecorder{recorder{k.fakeNode}, k},
		Taints: killableTaints{taints, k}, Random: func() float64 { return 0 },
	}
	if k.file != nil {
		options.Memory, options.Remembered = k, k.file.load()
	}
	a, err := New(options)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
	defer stop()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := a.Run(ctx); err != nil {
			t.Errorf("running: %v", err)
		}
	}()
	<-ended
	synctest.Wait()
}
