package agent

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/execute"
	"github.com/evictd/evictd/internal/permits"
	"github.com/evictd/evictd/internal/pools"
	"github.com/evictd/evictd/internal/taint"
	"github.com/evictd/evictd/pkg/evict"
)

// journal is what happened, in its order.
type journal struct {
	mu    sync.Mutex
	lines []string
}

func (j *journal) add(line string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if n := len(j.lines); n == 0 || j.lines[n-1] != line {
		j.lines = append(j.lines, line)
	}
}

func (j *journal) all() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.lines)
}

// fakeTaints notes what is wanted and answers after a while.
type fakeTaints struct {
	*journal
	takes time.Duration
	fails error
	last  string
}

func (f *fakeTaints) Want(w taint.Wanted) {
	text := "want " + strings.Join(w.Pressures.Keys(), " ")
	if w.Keep {
		text += " keep"
	}
	if w.DryRun {
		text += " dry run"
	}
	if text != f.last {
		f.add(text)
	}
	f.last = text
}

func (f *fakeTaints) Settled(ctx context.Context) error {
	select {
	case <-time.After(f.takes):
	case <-ctx.Done():
		return ctx.Err()
	}
	f.add("settled")
	return f.fails
}

// fakePermits answers by workload; a workload without an entry gets a permit.
type fakePermits struct {
	*journal
	answers map[string]permits.Answer
	asked   []permits.Request
	takes   time.Duration
	leave   map[string]bool // by the UID: the agent said that it is leaving
}

func (f *fakePermits) Acquire(ctx context.Context, r permits.Request) permits.Answer {
	select {
	case <-time.After(f.takes):
	case <-ctx.Done():
	}
	f.mu.Lock()
	f.asked = append(f.asked, r)
	answer, set := f.answers[pools.WorkloadOf(r.Pod)]
	f.mu.Unlock()
	if !set {
		answer.Verdict = permits.Granted
	}
	if answer.Verdict != permits.Granted {
		answer.Pool = r.Limits.Of(r.Pod)[0]
	}
	f.add("take " + r.Pod.Name + " " + string(answer.Verdict))
	return answer
}

func (f *fakePermits) Release(uid string) { f.add("return " + uid) }

func (f *fakePermits) ReleaseEnded(there, leaving func(string) bool) {
	f.mu.Lock()
	var over []string
	if f.leave == nil {
		f.leave = map[string]bool{}
	}
	for i := range f.asked {
		uid := f.asked[i].Pod.UID
		if !there(uid) {
			over = append(over, uid)
		}
		if leaving(uid) {
			f.leave[uid] = true
		}
	}
	f.mu.Unlock()
	for _, uid := range over {
		f.add("release " + uid)
	}
}

// noted is a node whose eviction requests are in the journal too.
type noted struct {
	*fakeNode
	*journal
}

func (n noted) Evict(ctx context.Context, r evict.Request) evict.Result {
	n.add("evict " + r.Name)
	return n.fakeNode.Evict(ctx, r)
}

// watchOptIns is watch with the parts that are off by default.
func watchOptIns(t *testing.T, n *fakeNode, j *journal, taints Taints, b Permits, policy Policy, during time.Duration) {
	t.Helper()
	a, err := New(Options{
		Policy: policy, Sampler: n, Pods: n, Cgroups: n, Evictor: noted{n, j}, Recorder: recorder{n},
		Random: func() float64 { return 0 }, Taints: taints, Permits: b,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), during)
	defer stop()
	if err := a.Run(ctx); err != nil {
		t.Errorf("running: %v", err)
	}
	synctest.Wait()
}

func taintPolicy() Policy {
	policy := hardPolicy()
	policy.TaintNode, policy.Transition = true, 20*time.Second
	return policy
}

func TestNodeIsTaintedBeforeTheFirstEvictionAndUntilTheTransitionPeriodHasPassed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n, j := newFakeNode(1000), &journal{}
		n.run("greedy", 500, 100)
		n.after(30*time.Second, func() { n.host = 450 * mebi })
		n.after(50*time.Second, func() { n.host = 0 })
		watchOptIns(t, n, j, &fakeTaints{journal: j, takes: 300 * time.Millisecond}, nil, taintPolicy(), 2*time.Minute)
		want := []string{
			"want  keep", "want ", // watched for a transition period
			"want evictd.dev/memory-pressure", "settled", "evict greedy", "want ",
		}
		if diff := cmp.Diff(want, j.all()); diff != "" {
			t.Errorf("the order (-want +got):\n%s", diff)
		}
		if notes := n.last(t).Notes; len(n.decisions) == 0 || len(notes) != 0 {
			t.Errorf("notes where there is nothing to say: %v", notes)
		}
	})
}

func TestTaintThatFailsStopsNoEvictionAndIsOnRecord(t *testing.T) {
	t.Parallel()
	for name, taints := range map[string]*fakeTaints{
		"refused":   {fails: errors.New("no right")},
		"no answer": {takes: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n := newFakeNode(1000)
				taints.journal = &journal{}
				n.run("greedy", 950, 100)
				watchOptIns(t, n, taints.journal, taints, nil, taintPolicy(), 10*time.Second)
				n.wantVictims(t, "greedy")
				d := n.decisions[0]
				if len(d.Notes) != 1 || !strings.Contains(d.Notes[0], "may not carry evictd.dev/memory-pressure") {
					t.Errorf("notes %q", d.Notes)
				}
				if waited := d.Attempts[0].Result.Sent.Sub(d.Time); waited > execute.TaintTimeout+100*time.Millisecond {
					t.Errorf("the eviction waited %v", waited)
				}
			})
		})
	}
}

func TestTaintIsSaidInADryRunAndRemovedWhenItIsSwitchedOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n, j := newFakeNode(1000), &journal{}
		n.run("greedy", 950, 100)
		policy := taintPolicy()
		policy.DryRun, policy.Transition = true, 0
		a, err := New(Options{
			Policy: policy, Sampler: n, Pods: n, Cgroups: n, Evictor: noted{n, j}, Recorder: recorder{n},
			Random: func() float64 { return 0 }, Taints: &fakeTaints{journal: j},
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
		defer stop()
		go func() {
			time.Sleep(5 * time.Second)
			policy.TaintNode = false
			a.Reload(ctx, policy, n)
		}()
		if err := a.Run(ctx); err != nil {
			t.Error(err)
		}
		want := []string{"want evictd.dev/memory-pressure dry run", "settled", "evict greedy"}
		got := j.all()
		if diff := cmp.Diff(want, got[:3]); diff != "" || got[len(got)-1] != "want " {
			t.Errorf("the order (-want +got):\n%s\nat the end %q, want nothing wanted", diff, got[len(got)-1])
		}
		if notes := n.decisions[0].Notes; len(notes) != 1 || !strings.Contains(notes[0], "would taint") {
			t.Errorf("notes %q", notes)
		}
	})
}

func permitsPolicy() Policy {
	policy := hardPolicy()
	policy.Permits.PerWorkload = 2
	return policy
}

// workload makes a pod one of a workload.
func workload(name string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.OwnerReferences[0].Name = name }
}

func TestPermitIsAcquiredBeforeTheRequestAndReleasedWhenTheVictimHasEnded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n, j := newFakeNode(1000), &journal{}
		n.run("greedy", 500, 100, workload("one"))
		n.run("other", 450, 100, workload("two"))
		b := &fakePermits{journal: j}
		n.answer = func(r evict.Request) evict.Result {
			if r.Name == "greedy" {
				return evict.Result{Outcome: evict.BlockedByBudget}
			}
			return evict.Result{Outcome: evict.Evicted}
		}
		watchOptIns(t, n, j, nil, b, permitsPolicy(), 8*time.Second)
		want := []string{
			"take greedy Granted", "evict greedy", "return uid-greedy",
			"take other Granted", "evict other", "release uid-other",
		}
		if diff := cmp.Diff(want, j.all()); diff != "" {
			t.Errorf("the order (-want +got):\n%s", diff)
		}
		r := b.asked[1]
		if want := 35*time.Second + 5*time.Second + 30*time.Second + 15*time.Second; r.Lasts != want || r.Limits.PerWorkload != 2 || r.DryRun {
			t.Errorf("requested %+v, want 2 permits for %v, for real", r, want)
		}
		if !maps.Equal(b.leave, map[string]bool{"uid-other": true}) {
			t.Errorf("said to be leaving: %v, want the victim alone", b.leave)
		}
	})
}

func TestFullWorkloadIsPassedOverAndTheNextIsEvicted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n, j := newFakeNode(1000), &journal{}
		for _, name := range []string{"a", "b"} {
			n.run(name, 300, 100, workload("full"))
		}
		n.run("other", 350, 200, workload("free"))
		b := &fakePermits{journal: j, answers: map[string]permits.Answer{"shop/ReplicaSet/full": {Verdict: permits.Full, Detail: "two others"}}}
		watchOptIns(t, n, j, nil, b, permitsPolicy(), 5*time.Second)
		want := []string{"take a Full", "take other Granted", "evict other", "release uid-other"}
		got := j.all()
		if len(got) > 0 && got[0] == "take b Full" {
			want[0] = got[0] // of two equal pods
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("the order (-want +got):\n%s", diff)
		}
		if notes := n.decisions[0].Notes; len(notes) != 1 || !strings.Contains(notes[0], "shop/ReplicaSet/full has no free permit of 2: two others") {
			t.Errorf("notes %q", notes)
		}
	})
}

func TestNoWorkloadHasAFreePermit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n, j := newFakeNode(1000), &journal{}
		n.run("greedy", 950, 100, workload("full"))
		b := &fakePermits{journal: j, answers: map[string]permits.Answer{"shop/ReplicaSet/full": {Verdict: permits.Full}}}
		watchOptIns(t, n, j, nil, b, permitsPolicy(), 59*time.Second)
		if len(n.evictions) != 0 || !slices.Equal(n.holds(), []decide.Hold{decide.HoldNoPermit}) {
			t.Errorf("%d evictions, holds %v", len(n.evictions), n.holds())
		}
		if len(b.asked) < 28 || len(b.asked) > 31 { // one every 2 s
			t.Errorf("%d permits requested in 59 s, want about 30", len(b.asked))
		}
	})
}

func TestUnknownPermitHoldsSoftEvictionsAndNotHardOnes(t *testing.T) {
	t.Parallel()
	for _, hard := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			n, j := newFakeNode(1000), &journal{}
			n.run("greedy", 500, 100, workload("one"))
			n.run("other", 450, 100, workload("two"))
			policy := permitsPolicy()
			policy.Thresholds[0].Hard = hard
			unknown := permits.Answer{Verdict: permits.Unknown, Detail: "no answer"}
			b := &fakePermits{journal: j, answers: map[string]permits.Answer{"shop/ReplicaSet/one": unknown, "shop/ReplicaSet/two": unknown}}
			n.answer = func(evict.Request) evict.Result { return evict.Result{Outcome: evict.BlockedByBudget} }
			watchOptIns(t, n, j, nil, b, policy, 900*time.Millisecond)
			want, wantNotes := []string{"take greedy Unknown"}, []string{"greedy is not evicted, because the pressure is soft", "other is not"}
			if hard {
				want = append(want, "evict greedy", "return uid-greedy", "evict other", "return uid-other")
				wantNotes = []string{"greedy is evicted without a permit, because the pressure is hard", "other is evicted without a permit"}
			}
			if diff := cmp.Diff(want, j.all()); diff != "" {
				t.Errorf("hard %t: the order (-want +got):\n%s", hard, diff)
			}
			notes := n.decisions[0].Notes
			for i, part := range wantNotes {
				if len(notes) != 2 || !strings.Contains(notes[i], part) || !strings.Contains(notes[i], "no answer") {
					t.Errorf("hard %t: notes %q", hard, notes)
				}
			}
			if d := n.decisions[0]; !hard && (d.Verb != decide.Held || d.Hold != decide.HoldNoPermit) {
				t.Errorf("the decision: %+v", d)
			}
		})
	}
}

func TestUnknownPermitPreventsNoBypassOfABudget(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		verdict permits.Verdict
		want    []string
	}{
		{permits.Unknown, []string{"evict alone", "evict oneof3", "delete oneof3"}},
		{permits.Full, []string{}},
	} {
		synctest.Test(t, func(t *testing.T) {
			n, j, policy := keptNode(), &journal{}, permitsPolicy()
			policy.BestEffort = true
			b := &fakePermits{journal: j, answers: map[string]permits.Answer{"shop/ReplicaSet/rs": {Verdict: test.verdict}}}
			watchOptIns(t, n, j, nil, b, policy, 900*time.Millisecond)
			if diff := cmp.Diff(test.want, n.requests()); diff != "" {
				t.Errorf("%s: requests (-want +got):\n%s", test.verdict, diff)
			}
		})
	}
}

// Guards invariant 10 with permits: what it takes to acquire one is no way around.
func TestNoRequestAfterTheEndWhileAPermitIsAcquired(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n, j := newFakeNode(1000), &journal{}
		n.run("greedy", 950, 100)
		b := &fakePermits{journal: j, takes: 3 * time.Second, answers: map[string]permits.Answer{"shop/ReplicaSet/rs": {Verdict: permits.Unknown}}}
		watchOptIns(t, n, j, nil, b, permitsPolicy(), time.Second)
		if diff := cmp.Diff([]string{"take greedy Unknown", "return uid-greedy"}, j.all()); diff != "" {
			t.Errorf("the order (-want +got):\n%s", diff)
		}
	})
}

// TestPermitOfARequestInDoubtIsKept: a request without a response may have been carried out: its
// permit is kept, and for longer than its time when the pod is seen to terminate.
func TestPermitOfARequestInDoubtIsKept(t *testing.T) {
	t.Parallel()
	for _, terminating := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			n, j := newFakeNode(1000), &journal{}
			n.run("greedy", 950, 100)
			n.answer, n.unlooked = lost, errPlanted()
			if terminating {
				n.stubborn = true
				n.after(10*time.Second, func() { n.pods["uid-greedy"].memory = 0; n.terminate("uid-greedy") }) // calm: nothing is booked
			}
			b := &fakePermits{journal: j}
			watchOptIns(t, n, j, nil, b, permitsPolicy(), 30*time.Second)
			if diff := cmp.Diff([]string{"take greedy Granted", "evict greedy"}, j.all()); diff != "" {
				t.Errorf("the order (-want +got):\n%s", diff)
			}
			if b.leave["uid-greedy"] != terminating {
				t.Errorf("said to be leaving: %v, want %t", b.leave, terminating)
			}
		})
	}
}

func TestPermitsThatAreOffAreNotAsked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n, j := newFakeNode(1000), &journal{}
		n.run("greedy", 950, 100)
		watchOptIns(t, n, j, &fakeTaints{journal: j}, &fakePermits{journal: j}, hardPolicy(), 10*time.Second)
		if diff := cmp.Diff([]string{"want ", "evict greedy"}, j.all()); diff != "" {
			t.Errorf("the order (-want +got):\n%s", diff)
		}
	})
}
