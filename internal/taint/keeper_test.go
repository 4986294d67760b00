package taint

import (
	"context"
	"errors"
	"slices"
	"strings"
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

// rig is a keeper with a fake API server. What the real server does with versions is tested in test/api and
// test/faults. What an attempt writes here is read once it is over, or waits.
type rig struct {
	*Keeper
	t      *testing.T // the bubble's
	client *fake.Clientset
	told   []string
	faults int
	fail   func(verb string) error // nil: the API server answers
}

func (r *rig) Tainted(added, removed []string, dryRun bool) {
	text := "+" + strings.Join(added, ",") + " -" + strings.Join(removed, ",")
	if dryRun {
		text += " dry run"
	}
	r.told = append(r.told, text)
}

func (r *rig) Failed(string, error) { r.faults++ }

// wants tells what is wanted at once and every 50 ms for so long, as the loop does, and waits for what is sent then.
func (r *rig) wants(w Wanted, during time.Duration) {
	r.Want(w)
	for end := time.Now().Add(during); time.Now().Before(end); {
		time.Sleep(50 * time.Millisecond)
		r.Want(w)
	}
	synctest.Wait()
}

// keeping runs a test of the keeper of a node with these taints, in a time of its own.
func keeping(t *testing.T, taints []corev1.Taint, test func(r *rig)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := &rig{t: t, client: fake.NewClientset(&corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: "n", ResourceVersion: "1"}, Spec: corev1.NodeSpec{Taints: taints},
		})}
		r.client.PrependReactor("*", "nodes", func(action kubetesting.Action) (bool, runtime.Object, error) {
			if r.fail == nil {
				return false, nil, nil
			}
			err := r.fail(action.GetVerb())
			return err != nil, nil, err
		})
		r.Keeper = New(r.client.CoreV1().Nodes(), "n", r, time.Now)
		test(r)
	})
}

// sent returns the verbs of the requests so far. The fake API server carries a dry run out.
func (r *rig) sent() []string {
	var verbs []string
	for _, action := range r.client.Actions() {
		verb := action.GetVerb()
		if patch, is := action.(kubetesting.PatchActionImpl); is && len(patch.PatchOptions.DryRun) > 0 {
			verb += " as a dry run"
		}
		verbs = append(verbs, verb)
	}
	return verbs
}

func (r *rig) node() *corev1.Node {
	r.t.Helper()
	object, err := r.client.Tracker().Get(corev1.SchemeGroupVersion.WithResource("nodes"), "", "n")
	node, is := object.(*corev1.Node)
	if err != nil || !is {
		r.t.Fatalf("%T, %v", object, err)
	}
	return node
}

// carries fails the test unless the node carries these of evictd's.
func (r *rig) carries(want Set) {
	r.t.Helper()
	if got := on(r.node().Spec.Taints...); got != want {
		r.t.Errorf("the node carries %v, want %v", got.Keys(), want.Keys())
	}
}

// gets gives the node other taints, behind the keeper's back.
func (r *rig) gets(taints []corev1.Taint) {
	r.t.Helper()
	node := r.node().DeepCopy()
	node.Spec.Taints = taints
	if err := r.client.Tracker().Update(corev1.SchemeGroupVersion.WithResource("nodes"), node, ""); err != nil {
		r.t.Error(err)
	}
}

// A pressure has one key with two effects. That of another client with the third stays, as all others' do.
func TestOthersTaintsStay(t *testing.T) {
	const noSchedule, prefer = corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule
	theirs := []corev1.Taint{
		{Key: "node.kubernetes.io/memory-pressure", Effect: noSchedule},
		{Key: "evictd.dev/memory-pressure", Effect: corev1.TaintEffectNoExecute, Value: "by hand"},
		{Key: "evictd.dev/pressure", Effect: noSchedule},
	}
	keeping(t, theirs, func(r *rig) {
		for _, step := range []struct {
			want  Set
			gives []corev1.Taint
			told  string
		}{
			{
				Memory | Disk,
				[]corev1.Taint{{Key: "evictd.dev/memory-pressure", Effect: noSchedule}, {Key: "evictd.dev/disk-pressure", Effect: noSchedule}},
				"+evictd.dev/memory-pressure,evictd.dev/disk-pressure -",
			},
			{PIDs, []corev1.Taint{{Key: "evictd.dev/pid-pressure", Effect: noSchedule}}, "+evictd.dev/pid-pressure -evictd.dev/memory-pressure,evictd.dev/disk-pressure"},
			{Memory.Preferring(), []corev1.Taint{{Key: "evictd.dev/memory-pressure", Effect: prefer}}, "+evictd.dev/memory-pressure:PreferNoSchedule -evictd.dev/pid-pressure"},
			{
				Memory | Memory.Preferring(),
				[]corev1.Taint{{Key: "evictd.dev/memory-pressure", Effect: prefer}, {Key: "evictd.dev/memory-pressure", Effect: noSchedule}},
				"+evictd.dev/memory-pressure -",
			},
			{Memory, []corev1.Taint{{Key: "evictd.dev/memory-pressure", Effect: noSchedule}}, "+ -evictd.dev/memory-pressure:PreferNoSchedule"},
			{0, nil, "+ -evictd.dev/memory-pressure"},
		} {
			r.told = nil
			r.wants(Wanted{Pressures: step.want}, 0)
			if diff := cmp.Diff(append(slices.Clone(theirs), step.gives...), r.node().Spec.Taints); diff != "" || strings.Join(r.told, "; ") != step.told {
				r.t.Errorf("%v: told %q (-want +got):\n%s", step.want.Keys(), r.told, diff)
			}
		}
	})
}

func TestTaintThatWasFoundStaysUntilTheNodeIsKnownToBeCalm(t *testing.T) {
	keeping(t, []corev1.Taint{{Key: "evictd.dev/disk-pressure", Effect: corev1.TaintEffectNoSchedule}}, func(r *rig) {
		r.wants(Wanted{Keep: true}, 0)
		r.Found(r.node())
		r.wants(Wanted{Keep: true}, time.Hour)
		if r.carries(Disk); len(r.sent()) != 0 {
			r.t.Errorf("sent %v", r.sent())
		}
		r.wants(Wanted{Keep: true, Pressures: Memory}, time.Second)
		r.carries(Memory | Disk)
		r.wants(Wanted{}, time.Second) // it is calm
		r.carries(0)
	})
}

func TestConflictIsTriedAgainAtOnce(t *testing.T) {
	keeping(t, nil, func(r *rig) {
		conflicts := 3
		r.fail = func(verb string) error {
			if verb == "patch" && conflicts > 0 {
				conflicts--
				return apierrors.NewConflict(schema.GroupResource{Resource: "nodes"}, "n", errors.New("changed"))
			}
			return nil
		}
		begin := time.Now()
		r.wants(Wanted{Pressures: Memory}, 0)
		if err := r.Settled(r.t.Context()); err != nil || time.Since(begin) != 0 {
			r.t.Errorf("%v after %v", err, time.Since(begin))
		}
		r.carries(Memory)
		if got := strings.Join(r.sent(), " "); got != "get patch get patch get patch get patch" {
			r.t.Errorf("sent %s", got)
		}
	})
}

func TestFailureIsSaidAtOnceAndTriedAgain(t *testing.T) {
	keeping(t, nil, func(r *rig) {
		r.fail = func(string) error {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, "n", errors.New("no right"))
		}
		r.wants(Wanted{Pressures: Memory}, 0)
		for range 3 {
			if err := r.Settled(r.t.Context()); !apierrors.IsForbidden(err) {
				r.t.Errorf("settled: %v, want why not", err)
			}
		}
		r.wants(Wanted{Pressures: Memory}, 2*time.Minute) // at once, and after 1, 3, 7, 15, 31, 61 and 91 s, or up to a fifth later
		if r.faults != 8 {
			r.t.Errorf("%d attempts in two minutes, want 8", r.faults)
		}
		r.fail = nil
		r.wants(Wanted{Pressures: Memory}, longestWait+longestWait/4)
		r.carries(Memory)
	})
}

// TestPatchWithoutAResponseIsUndone: a patch without a response may have been carried out: the node
// is read again, also when no taint is wanted any more.
func TestPatchWithoutAResponseIsUndone(t *testing.T) {
	keeping(t, nil, func(r *rig) {
		done := false
		r.fail = func(verb string) error {
			if verb == "patch" && !done {
				done = true
				r.gets(with(nil, Memory))
				return errors.New("connection reset")
			}
			return nil
		}
		r.wants(Wanted{Pressures: Memory}, 0)
		if r.carries(Memory); r.faults != 1 {
			r.t.Errorf("%d faults, want one", r.faults)
		}
		r.wants(Wanted{}, time.Minute)
		r.carries(0)
	})
}

func TestDryRunAsksAndRemovesWhatIsThere(t *testing.T) {
	keeping(t, []corev1.Taint{{Key: "evictd.dev/disk-pressure", Effect: corev1.TaintEffectNoSchedule}}, func(r *rig) {
		r.Found(r.node())
		r.wants(Wanted{Pressures: Memory, DryRun: true}, 0)
		want := []string{"+ -evictd.dev/disk-pressure", "+evictd.dev/memory-pressure - dry run"}
		if diff := cmp.Diff(want, r.told); diff != "" {
			r.t.Errorf("told (-want +got):\n%s", diff)
		}
		if got := strings.Join(r.sent(), ", "); got != "get, patch, patch as a dry run" {
			r.t.Errorf("sent %s", got)
		}
		before := len(r.sent())
		r.wants(Wanted{DryRun: true}, 0)
		r.wants(Wanted{}, time.Hour)
		if after := r.sent(); len(after) != before {
			r.t.Errorf("sent %v when the pressure had gone", after[before:])
		}
	})
}

// What is wanted while an attempt for something else waits for its answer is sent by that attempt, before an eviction
// that waits for it goes on, but for one whose context ends.
func TestFaultAWishDuringAnAttemptIsSettled(t *testing.T) {
	keeping(t, nil, func(r *rig) {
		answer := make(chan struct{})
		r.fail = func(string) error { <-answer; return nil }
		r.wants(Wanted{Pressures: Memory}, 0)
		r.Want(Wanted{Pressures: Memory | Disk})
		ctx, cancel := context.WithTimeout(r.t.Context(), time.Second)
		defer cancel()
		if err := r.Settled(ctx); !errors.Is(err, context.DeadlineExceeded) {
			r.t.Errorf("settled without an answer: %v", err)
		}
		close(answer)
		if err := r.Settled(r.t.Context()); err != nil {
			r.t.Error(err)
		}
		r.carries(Memory | Disk)
	})
}

// Another removes the taint, or the Node is made anew without it: that is noticed within a
// minute while the pressure lasts, and nothing is sent after it.
func TestFaultTaintThatOthersRemovedIsNoticed(t *testing.T) {
	keeping(t, nil, func(r *rig) {
		r.wants(Wanted{Pressures: Memory}, 0)
		r.gets(nil)
		r.wants(Wanted{Pressures: Memory}, 90*time.Second)
		r.carries(Memory)
		r.wants(Wanted{}, 0)
		sent := len(r.sent())
		r.wants(Wanted{}, time.Hour)
		if got := r.sent(); len(got) != sent {
			r.t.Errorf("%d requests were sent while nothing was wanted", len(got)-sent)
		}
	})
}
