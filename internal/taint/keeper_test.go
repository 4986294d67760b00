package taint

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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	kubetesting "k8s.io/client-go/testing"
)

// rig is a keeper with a fake API server, and a loop that tells it what is wanted. What the real server does with
// versions is tested in test/api and test/faults.
type rig struct {
	*Keeper
	client *fake.Clientset

	mu     sync.Mutex
	wanted Wanted
	told   []string
	faults int
	fail   func(verb string) error // nil: the API server answers
}

func (r *rig) Tainted(added, removed []string, dryRun bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	text := "+" + strings.Join(added, ",") + " -" + strings.Join(removed, ",")
	if dryRun {
		text += " dry run"
	}
	r.told = append(r.told, text)
}

func (r *rig) Failed(string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.faults++
}

func (r *rig) all() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.told)
}

func (r *rig) failures() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.faults
}

func (r *rig) failing(fail func(verb string) error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fail = fail
}

// Want changes what the loop tells, and tells it at once.
func (r *rig) Want(w Wanted) {
	r.mu.Lock()
	r.wanted = w
	r.mu.Unlock()
	synctest.Wait() // no attempt is under way, unless it waits
	r.Keeper.Want(w)
}

// newRig has a loop look at the node every 50 ms until the test is over.
func newRig(t *testing.T, taints ...corev1.Taint) *rig {
	t.Helper()
	r := &rig{client: fake.NewClientset(&corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n", ResourceVersion: "1"}, Spec: corev1.NodeSpec{Taints: taints},
	})}
	r.client.PrependReactor("*", "nodes", func(action kubetesting.Action) (bool, runtime.Object, error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.fail == nil {
			return false, nil, nil
		}
		err := r.fail(action.GetVerb())
		return err != nil, nil, err
	})
	r.Keeper = New(r.client.CoreV1().Nodes(), "n", r, time.Now)
	go func() {
		for tick := time.NewTicker(50 * time.Millisecond); ; {
			select {
			case <-t.Context().Done():
				tick.Stop()
				return
			case <-tick.C:
				r.mu.Lock()
				w := r.wanted
				r.mu.Unlock()
				r.Keeper.Want(w)
			}
		}
	}()
	return r
}

// sent returns the verbs of the requests so far.
func (r *rig) sent() []string {
	var verbs []string
	for _, action := range r.client.Actions() {
		verbs = append(verbs, action.GetVerb())
	}
	return verbs
}

func (r *rig) node(t *testing.T) *corev1.Node {
	t.Helper()
	object, err := r.client.Tracker().Get(corev1.SchemeGroupVersion.WithResource("nodes"), "", "n")
	if err != nil {
		t.Fatal(err)
	}
	node, ok := object.(*corev1.Node)
	if !ok {
		t.Fatalf("%T", object)
	}
	return node
}

// carries returns what the node carries of evictd's.
func (r *rig) carries(t *testing.T) Set { t.Helper(); return on(r.node(t).Spec.Taints...) }

func TestNothingIsSentWhileNothingIsToBeChanged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.Want(Wanted{})
		r.Want(Wanted{Keep: true})
		time.Sleep(time.Hour)
		r.Found(r.node(t))
		r.Want(Wanted{})
		time.Sleep(time.Hour)
		if sent := r.sent(); len(sent) != 0 {
			t.Errorf("sent %v while calm", sent)
		}
	})
}

func TestOthersTaintsStay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		theirs := []corev1.Taint{
			{Key: "node.kubernetes.io/memory-pressure", Effect: corev1.TaintEffectNoSchedule},
			{Key: "evictd.dev/memory-pressure", Effect: corev1.TaintEffectNoExecute, Value: "by hand"},
			{Key: "evictd.dev/pressure", Effect: corev1.TaintEffectNoSchedule},
		}
		r := newRig(t, theirs...)
		r.Want(Wanted{Pressures: Memory | Disk})
		if err := r.Settled(t.Context()); err != nil {
			t.Fatal(err)
		}
		want := append(slices.Clone(theirs),
			corev1.Taint{Key: "evictd.dev/memory-pressure", Effect: corev1.TaintEffectNoSchedule},
			corev1.Taint{Key: "evictd.dev/disk-pressure", Effect: corev1.TaintEffectNoSchedule})
		if diff := cmp.Diff(want, r.node(t).Spec.Taints); diff != "" {
			t.Errorf("set (-want +got):\n%s", diff)
		}
		r.Want(Wanted{Pressures: PIDs})
		time.Sleep(time.Second)
		want = append(slices.Clone(theirs), corev1.Taint{Key: "evictd.dev/pid-pressure", Effect: corev1.TaintEffectNoSchedule})
		if diff := cmp.Diff(want, r.node(t).Spec.Taints); diff != "" {
			t.Errorf("changed (-want +got):\n%s", diff)
		}
		r.Want(Wanted{})
		time.Sleep(time.Second)
		if diff := cmp.Diff(theirs, r.node(t).Spec.Taints); diff != "" {
			t.Errorf("removed (-want +got):\n%s", diff)
		}
	})
}

// A pressure has one key with two effects. That of another client with the third stays.
func TestOneKeyHasTwoEffects(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		with := func(effects ...corev1.TaintEffect) (taints []corev1.Taint) {
			for _, e := range append([]corev1.TaintEffect{corev1.TaintEffectNoExecute}, effects...) {
				taints = append(taints, corev1.Taint{Key: "evictd.dev/memory-pressure", Effect: e})
			}
			return taints
		}
		r := newRig(t, with()...)
		for _, step := range []struct {
			want  Set
			gives []corev1.Taint
		}{
			{Memory.Preferring(), with(corev1.TaintEffectPreferNoSchedule)},
			{Memory | Memory.Preferring(), with(corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoSchedule)},
			{Memory, with(corev1.TaintEffectNoSchedule)},
			{Memory.Preferring(), with(corev1.TaintEffectPreferNoSchedule)},
			{0, with()},
		} {
			r.Want(Wanted{Pressures: step.want})
			if err := r.Settled(t.Context()); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(step.gives, r.node(t).Spec.Taints); diff != "" {
				t.Errorf("%v (-want +got):\n%s", step.want.Keys(), diff)
			}
		}
		if told := r.all(); told[1] != "+evictd.dev/memory-pressure -" || told[4] != "+ -evictd.dev/memory-pressure:PreferNoSchedule" {
			t.Errorf("told %q", told)
		}
	})
}

func TestTaintThatWasFoundStaysUntilTheNodeIsKnownToBeCalm(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, corev1.Taint{Key: "evictd.dev/disk-pressure", Effect: corev1.TaintEffectNoSchedule})
		r.Want(Wanted{Keep: true})
		r.Found(r.node(t))
		time.Sleep(time.Hour)
		if got := r.carries(t); got != Disk || len(r.sent()) != 0 {
			t.Errorf("the node carries %v, sent %v", got.Keys(), r.sent())
		}
		r.Want(Wanted{Keep: true, Pressures: Memory})
		time.Sleep(time.Second)
		if got := r.carries(t); got != Memory|Disk {
			t.Errorf("the node carries %v", got.Keys())
		}
		r.Want(Wanted{})
		time.Sleep(time.Second)
		if got := r.carries(t); got != 0 {
			t.Errorf("the node carries %v when it is calm", got.Keys())
		}
	})
}

func TestConflictIsTriedAgainAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, conflicts := newRig(t), 3
		r.failing(func(verb string) error {
			if verb == "patch" && conflicts > 0 {
				conflicts--
				return apierrors.NewConflict(schema.GroupResource{Resource: "nodes"}, "n", errors.New("changed"))
			}
			return nil
		})
		begin := time.Now()
		r.Want(Wanted{Pressures: Memory})
		if err := r.Settled(t.Context()); err != nil || time.Since(begin) != 0 || r.carries(t) != Memory {
			t.Errorf("%v after %v, the node carries %v", err, time.Since(begin), r.carries(t).Keys())
		}
		if got := strings.Join(r.sent(), " "); got != "get patch get patch get patch get patch" {
			t.Errorf("sent %s", got)
		}
	})
}

func TestFailureIsSaidAtOnceAndTriedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.failing(func(string) error {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, "n", errors.New("no right"))
		})
		r.Want(Wanted{Pressures: Memory})
		synctest.Wait() // the first attempt has failed
		for range 3 {
			if err := r.Settled(t.Context()); !apierrors.IsForbidden(err) {
				t.Errorf("settled: %v, want why not", err)
			}
		}
		time.Sleep(2 * time.Minute) // at once, and after 1, 3, 7, 15, 31, 61 and 91 s, or up to a fifth later
		if r.failures() != 8 {
			t.Errorf("%d attempts in two minutes, want 8", r.failures())
		}
		r.failing(nil)
		time.Sleep(longestWait + longestWait/4)
		if r.carries(t) != Memory {
			t.Error("the node is not tainted once it may be")
		}
	})
}

// TestPatchWithoutAResponseIsUndone: a patch without a response may have been carried out: the node
// is read again, also when no taint is wanted any more.
func TestPatchWithoutAResponseIsUndone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		done := false
		r.failing(func(verb string) error {
			if verb == "patch" && !done {
				done = true
				node := r.node(t).DeepCopy()
				node.Spec.Taints = with(nil, Memory)
				if err := r.client.Tracker().Update(corev1.SchemeGroupVersion.WithResource("nodes"), node, ""); err != nil {
					t.Error(err)
				}
				return errors.New("connection reset")
			}
			return nil
		})
		r.Want(Wanted{Pressures: Memory})
		synctest.Wait()
		if r.failures() != 1 || r.carries(t) != Memory {
			t.Errorf("%d faults, the node carries %v, want one and the taint", r.failures(), r.carries(t).Keys())
		}
		r.Want(Wanted{})
		time.Sleep(time.Minute)
		if got := r.carries(t); got != 0 {
			t.Errorf("the node carries %v for ever", got.Keys())
		}
	})
}

func TestDryRunAsksAndRemovesWhatIsThere(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, corev1.Taint{Key: "evictd.dev/disk-pressure", Effect: corev1.TaintEffectNoSchedule})
		r.Found(r.node(t))
		r.Want(Wanted{Pressures: Memory, DryRun: true})
		if err := r.Settled(t.Context()); err != nil {
			t.Fatal(err)
		}
		want := []string{"+ -evictd.dev/disk-pressure", "+evictd.dev/memory-pressure - dry run"}
		if diff := cmp.Diff(want, r.all()); diff != "" {
			t.Errorf("told (-want +got):\n%s", diff)
		}
		before := len(r.sent())
		r.Want(Wanted{DryRun: true})
		r.Want(Wanted{})
		time.Sleep(time.Hour)
		if after := r.sent(); len(after) != before {
			t.Errorf("sent %v when the pressure had gone", after[before:])
		}
	})
}

// What is wanted while an attempt for something else waits for its answer is sent by that attempt, before an eviction
// that waits for it goes on.
func TestFaultAWishDuringAnAttemptIsSettled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		answer := make(chan struct{})
		r.failing(func(string) error { <-answer; return nil })
		r.Want(Wanted{Pressures: Memory})
		synctest.Wait()
		r.Keeper.Want(Wanted{Pressures: Memory | Disk})
		close(answer)
		if err := r.Settled(t.Context()); err != nil {
			t.Error(err)
		}
		if got := r.carries(t); got != Memory|Disk {
			t.Errorf("the node carries %v", got)
		}
	})
}

func TestSettledEndsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := New(fake.NewClientset().CoreV1().Nodes(), "n", &rig{}, time.Now)
		k.sending <- struct{}{} // an attempt has no answer
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := k.Settled(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("settled: %v", err)
		}
	})
}

// Another removes the taint, or the Node is made anew without it: that is noticed within a
// minute while the pressure lasts, and nothing is sent after it.
func TestFaultTaintThatOthersRemovedIsNoticed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.Want(Wanted{Pressures: Memory})
		if err := r.Settled(t.Context()); err != nil {
			t.Fatal(err)
		}
		bare := r.node(t).DeepCopy()
		bare.Spec.Taints, bare.ResourceVersion = nil, "7"
		if err := r.client.Tracker().Update(corev1.SchemeGroupVersion.WithResource("nodes"), bare, ""); err != nil {
			t.Fatal(err)
		}
		time.Sleep(90 * time.Second)
		synctest.Wait()
		if got := r.carries(t); got != Memory {
			t.Errorf("the node carries %v, want the taint for memory again", got.Keys())
		}
		r.Want(Wanted{})
		synctest.Wait()
		sent := len(r.sent())
		time.Sleep(time.Hour)
		if got := r.sent(); len(got) != sent {
			t.Errorf("%d requests were sent while nothing was wanted", len(got)-sent)
		}
	})
}
