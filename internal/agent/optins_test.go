package agent

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/evictd/evictd/internal/execute"
	"github.com/evictd/evictd/internal/taint"
	"github.com/evictd/evictd/pkg/evict"
)

// diary is what happened, in its order.
type diary struct {
	mu    sync.Mutex
	lines []string
}

func (j *diary) add(line string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if n := len(j.lines); n == 0 || j.lines[n-1] != line {
		j.lines = append(j.lines, line)
	}
}

func (j *diary) all() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.lines)
}

// fakeTaints notes what is wanted and answers after a while.
type fakeTaints struct {
	*diary
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

// noted is a node whose eviction requests are in the diary too.
type noted struct {
	*fakeNode
	*diary
}

func (n noted) Evict(ctx context.Context, r evict.Request) evict.Result {
	n.add("evict " + r.Name)
	return n.fakeNode.Evict(ctx, r)
}

// watchOptIns is watch with the parts that are off by default.
func watchOptIns(t *testing.T, n *fakeNode, j *diary, taints Taints, policy Policy, during time.Duration) {
	t.Helper()
	a, err := New(Options{
		Remembered: &State{},
		Policy:     enforced(policy), Sampler: n, Pods: n, Cgroups: n, Evictor: noted{n, j}, Recorder: recorder{n},
		Random: func() float64 { return 0 }, Taints: taints,
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
		n, j := newFakeNode(1000), &diary{}
		n.run("greedy", 500, 100)
		n.after(30*time.Second, func() { n.host = 450 * mebi })
		n.after(50*time.Second, func() { n.host = 0 })
		watchOptIns(t, n, j, &fakeTaints{diary: j, takes: 300 * time.Millisecond}, taintPolicy(), 2*time.Minute)
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
				taints.diary = &diary{}
				n.run("greedy", 950, 100)
				watchOptIns(t, n, taints.diary, taints, taintPolicy(), 10*time.Second)
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
		n, j := newFakeNode(1000), &diary{}
		n.run("greedy", 950, 100)
		policy := taintPolicy()
		policy.DryRun, policy.Transition = true, 0
		a, err := New(Options{
			Remembered: &State{},
			Policy:     enforced(policy), Sampler: n, Pods: n, Cgroups: n, Evictor: noted{n, j}, Recorder: recorder{n},
			Random: func() float64 { return 0 }, Taints: &fakeTaints{diary: j},
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
		defer stop()
		go func() {
			time.Sleep(5 * time.Second)
			policy.TaintNode = false
			a.Reload(ctx, enforced(policy), n)
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

// workload makes a pod one of a workload.
func workload(name string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.OwnerReferences[0].Name = name }
}
