package permits

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	kubetesting "k8s.io/client-go/testing"

	"github.com/evictd/evictd/internal/pools"
	"github.com/evictd/evictd/pkg/rank"
)

func TestLeaseNames(t *testing.T) {
	t.Parallel()
	long := "shop/StatefulSet/" + strings.Repeat("x", 253)
	seen := map[string]bool{}
	for _, workload := range []string{long, "shop/Deployment/web", "shop/Deployment/wed", "sho/pDeployment/web"} {
		for permit := range 2 {
			name := leaseName(workload, permit)
			if len(name) > 63 || seen[name] {
				t.Errorf("%s: too long, or used twice", name)
			}
			seen[name] = true
		}
	}
}

// mute records nothing.
type mute struct{}

func (mute) Permit(Verdict)    {}
func (mute) PermitsHeld(int)   {}
func (mute) PermitError(error) {}

func newSemaphore(t *testing.T, client *fake.Clientset) *Semaphore {
	t.Helper()
	return New(Options{
		Leases: client.CoordinationV1().Leases("evictd"), Node: "n", Now: time.Now, Random: func() float64 { return 0 }, Recorder: mute{},
	})
}

// versioned is a fake API server whose Leases have versions, as the real one's have.
func versioned(t *testing.T) *fake.Clientset {
	t.Helper()
	client := fake.NewClientset()
	versions := 0
	client.PrependReactor("*", "leases", func(action kubetesting.Action) (bool, runtime.Object, error) {
		if write, is := action.(interface{ GetObject() runtime.Object }); is {
			lease, ok := write.GetObject().(*coordinationv1.Lease)
			if !ok {
				t.Errorf("%T", write.GetObject())
			}
			versions++
			lease.ResourceVersion = strconv.Itoa(versions)
		}
		return false, nil, nil
	})
	return client
}

func request(uid string) Request {
	return Request{Pod: &rank.Pod{Namespace: "shop", Name: uid, UID: uid, Owner: "Job/night"}, Limits: pools.Limits{PerWorkload: 2}, Lasts: time.Minute}
}

func TestVictimKeepsItsPermit(t *testing.T) {
	t.Parallel()
	client := versioned(t)
	b := newSemaphore(t, client)
	for range 3 {
		if answer := b.Acquire(t.Context(), request("a")); answer.Verdict != Granted {
			t.Fatal(answer)
		}
	}
	list, err := client.CoordinationV1().Leases("evictd").List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) != 1 {
		t.Errorf("%v, Leases %v, want one", err, list.Items)
	}
	if b.Acquire(t.Context(), request("b")).Verdict != Granted || b.Acquire(t.Context(), request("c")).Verdict != Full {
		t.Error("the second permit was not granted, or a third was")
	}
}

// nightly is the key of a victim's permit of the only workload.
func nightly(uid string) key { return key{uid, "shop/Job/night"} }

func TestPodWithoutAWorkloadNeedsNoPermit(t *testing.T) {
	t.Parallel()
	client := fake.NewClientset()
	bare, off := request("a"), request("b")
	bare.Pod.Owner, off.Limits.PerWorkload = "", 0
	for _, r := range []Request{bare, off} {
		if answer := newSemaphore(t, client).Acquire(t.Context(), r); answer.Verdict != Granted || len(client.Actions()) != 0 {
			t.Errorf("%+v, and asked %v", answer, client.Actions())
		}
	}
}

// TestPermitAcquiredWithoutAResponseIsReleased: a request without a response leaves nothing behind: a
// Lease that was written after all is removed, unless the victim has acquired the permit again
// since.
func TestPermitAcquiredWithoutAResponseIsReleased(t *testing.T) {
	t.Parallel()
	for _, again := range []bool{false, true} {
		client := fake.NewClientset()
		lost := true
		client.PrependReactor("create", "leases", func(action kubetesting.Action) (bool, runtime.Object, error) {
			create, ok := action.(kubetesting.CreateAction)
			if !ok || !lost {
				return false, nil, nil
			}
			lost = false
			lease, _ := create.GetObject().(*coordinationv1.Lease)
			written := lease.DeepCopy()
			written.ResourceVersion = "7"
			if err := client.Tracker().Create(coordinationv1.SchemeGroupVersion.WithResource("leases"), written, "evictd"); err != nil {
				t.Error(err)
			}
			return true, nil, errors.New("connection reset")
		})
		b := newSemaphore(t, client)
		if answer := b.Acquire(t.Context(), request("a")); answer.Verdict != Unknown {
			t.Fatal(answer)
		}
		if again && b.Acquire(t.Context(), request("a")).Verdict != Granted {
			t.Fatal("the victim does not get the permit that it has")
		}
		for _, s := range b.back {
			if err := b.remove(t.Context(), s); err != nil {
				t.Error(err)
			}
		}
		list, err := client.CoordinationV1().Leases("evictd").List(t.Context(), metav1.ListOptions{})
		if err != nil || (len(list.Items) == 1) != again {
			t.Errorf("taken again %t: %v, Leases %v", again, err, list.Items)
		}
	}
}

func TestFasterOnesAreNoFault(t *testing.T) {
	t.Parallel()
	leases := schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}
	for _, err := range []error{apierrors.NewAlreadyExists(leases, "x"), apierrors.NewConflict(leases, "x", nil), apierrors.NewNotFound(leases, "x")} {
		client := fake.NewClientset()
		client.PrependReactor("create", "leases", func(kubetesting.Action) (bool, runtime.Object, error) { return true, nil, err })
		if answer := newSemaphore(t, client).Acquire(t.Context(), request("a")); answer.Verdict != Full {
			t.Errorf("%v: %+v", err, answer)
		}
	}
}

func always(string) bool { return true }
func never(string) bool  { return false }

// TestPermitOfAPodThatIsNotLeavingEndsAtItsTime: a pod that is still running may never have been
// evicted, and one of a dry run never is: only pods that are terminating keep their permits beyond
// their time.
func TestPermitOfAPodThatIsNotLeavingEndsAtItsTime(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		dryRun  bool
		leaving func(string) bool
		kept    bool
	}{
		"it is leaving":   {false, always, true},
		"it may stay":     {false, never, false},
		"it is a dry run": {true, always, false},
	} {
		b := newSemaphore(t, versioned(t))
		now := time.Now()
		b.options.Now = func() time.Time { return now }
		r := request("a")
		r.DryRun = c.dryRun
		b.Acquire(t.Context(), r)
		b.ReleaseEnded(always, c.leaving)
		if len(b.held) != 1 || len(b.outlasted) != 0 {
			t.Errorf("%s: holds %v, before its time", name, b.held)
		}
		now = now.Add(r.Lasts + time.Second)
		b.ReleaseEnded(always, c.leaving)
		if held := len(b.held) == 1; held != c.kept || (len(b.due()) == 1) != c.kept {
			t.Errorf("%s: held after its time %t, want %t", name, held, c.kept)
		}
	}
}

// renewing is a semaphore that holds the permit of pod a, which is due for renewal.
func renewing(t *testing.T, client *fake.Clientset) (*Semaphore, permit) {
	t.Helper()
	b := newSemaphore(t, client)
	start := time.Now()
	b.options.Now = func() time.Time { return start.Add(time.Minute - ahead/2) }
	r := request("a")
	b.Acquire(t.Context(), r)
	held := b.held[nightly("a")]
	held.expires = start.Add(r.Lasts)
	b.held[nightly("a")] = held
	b.ReleaseEnded(always, always)
	due := b.due()
	if len(due) != 1 {
		t.Fatalf("%+v is not due", held)
	}
	b.ReleaseEnded(always, always)
	if len(b.due()) != 0 {
		t.Fatal("it is due again at once")
	}
	return b, due[0]
}

func leasesOf(t *testing.T, client *fake.Clientset) []coordinationv1.Lease {
	t.Helper()
	list, err := client.CoordinationV1().Leases("evictd").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return list.Items
}

// TestPermitThatIsReleasedWhileItIsRenewedLeavesNothing: in any order of events, a permit that is
// released while it is renewed leaves no Lease.
func TestPermitThatIsReleasedWhileItIsRenewedLeavesNothing(t *testing.T) {
	t.Parallel()
	for name, answered := range map[string]bool{"the answer comes": true, "the answer is lost": false} {
		client := versioned(t)
		b, due := renewing(t, client)
		client.PrependReactor("update", "leases", func(action kubetesting.Action) (bool, runtime.Object, error) {
			b.Release("a") // the version that it has by now is old in a moment
			b.back = nil   // which the API server refuses to delete
			update, ok := action.(kubetesting.UpdateAction)
			if !ok || answered {
				return false, nil, nil
			}
			if err := client.Tracker().Update(coordinationv1.SchemeGroupVersion.WithResource("leases"), update.GetObject(), "evictd"); err != nil {
				t.Error(err)
			}
			return true, nil, errors.New("connection reset")
		})
		if err := b.renew(t.Context(), due); (err == nil) != answered {
			t.Errorf("%s: %v", name, err)
		}
		for _, s := range b.back {
			if err := b.remove(t.Context(), s); err != nil {
				t.Error(err)
			}
		}
		if left := leasesOf(t, client); len(left) != 0 || len(b.held) != 0 {
			t.Errorf("%s: held %v, left %v", name, b.held, left)
		}
	}
}

// TestRenewalWithoutAResponseIsTriedAgain: a renewal without a response may have been carried out, and does
// not count as one.
func TestRenewalWithoutAResponseIsTriedAgain(t *testing.T) {
	t.Parallel()
	client := versioned(t)
	b, due := renewing(t, client)
	client.PrependReactor("update", "leases", func(kubetesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewInternalError(errors.New("planted"))
	})
	if err := b.renew(t.Context(), due); err == nil {
		t.Error("no error")
	}
	if got := b.held[nightly("a")]; !got.expires.Equal(due.expires) || got.version != "" {
		t.Errorf("held as %+v, want it to end as before, in an unknown version", got)
	}
	now := b.options.Now().Add(renewalPause)
	b.options.Now = func() time.Time { return now }
	b.ReleaseEnded(always, always)
	if len(b.due()) != 1 {
		t.Error("it is not tried again")
	}
}

// TestLostPermitIsForgottenAndSaid: a permit that another holder has taken over, or whose Lease was
// deleted by hand, is no longer this node's: it is neither acquired again nor released.
func TestLostPermitIsForgottenAndSaid(t *testing.T) {
	t.Parallel()
	for _, deleted := range []bool{true, false} {
		client := versioned(t)
		b, due := renewing(t, client)
		leases := client.CoordinationV1().Leases("evictd")
		if deleted {
			if err := leases.Delete(t.Context(), due.lease, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		} else {
			theirs, other := leasesOf(t, client)[0], "other/b"
			theirs.Spec.HolderIdentity = &other
			if _, err := leases.Update(t.Context(), &theirs, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		before := leasesOf(t, client)
		err := b.renew(t.Context(), due)
		if err == nil || !strings.Contains(err.Error(), "is still terminating") || len(b.held) != 0 || len(b.back) != 0 {
			t.Errorf("deleted %t: %v, holds %v, releases %v", deleted, err, b.held, b.back)
		}
		if after := leasesOf(t, client); !slices.EqualFunc(before, after, func(a, b coordinationv1.Lease) bool { return a.ResourceVersion == b.ResourceVersion }) {
			t.Errorf("deleted %t: wrote %v", deleted, after)
		}
	}
}

func TestReleaseAsksOnlyAboutHolders(t *testing.T) {
	t.Parallel()
	b := newSemaphore(t, fake.NewClientset())
	b.Acquire(t.Context(), request("a"))
	b.Acquire(t.Context(), request("b"))
	var asked []string
	b.ReleaseEnded(func(uid string) bool { asked = append(asked, uid); return uid == "a" }, never)
	slices.Sort(asked)
	if !slices.Equal(asked, []string{"a", "b"}) || len(b.held) != 1 || len(b.back) != 1 || b.back[0].identity != "n/b" {
		t.Errorf("asked about %v, holds %v, releases %v", asked, b.held, b.back)
	}
}

func TestEndOfTheContextIsUnknown(t *testing.T) {
	t.Parallel()
	client := fake.NewClientset()
	client.PrependReactor("list", "leases", func(kubetesting.Action) (bool, runtime.Object, error) {
		return true, nil, context.DeadlineExceeded
	})
	if answer := newSemaphore(t, client).Acquire(t.Context(), request("a")); answer.Verdict != Unknown || answer.Detail == "" {
		t.Errorf("%+v", answer)
	}
}

// page is what client-go makes of a 404 that is no Status: a proxy's page.
func page() error {
	return apierrors.NewGenericServerResponse(404, "get", schema.GroupResource{Resource: "leases"}, "x", "<html>", 0, true)
}

// TestPageOfAProxySaysNothingOfALease: a proxy's 404 carries no information about a Lease: it does
// not make the permit lost, released or another holder's.
func TestPageOfAProxySaysNothingOfALease(t *testing.T) {
	t.Parallel()
	client := versioned(t)
	b, due := renewing(t, client)
	unread := due
	unread.version = ""
	client.PrependReactor("*", "leases", func(kubetesting.Action) (bool, runtime.Object, error) { return true, nil, page() })
	if err := b.renew(t.Context(), due); err == nil || len(b.held) != 1 {
		t.Errorf("renewing: %v, holds %v", err, b.held)
	}
	for _, s := range []permit{due, unread} {
		if err := b.remove(t.Context(), s); err == nil {
			t.Errorf("version %q: released", s.version)
		}
	}
	writing := fake.NewClientset()
	writing.PrependReactor("create", "leases", func(kubetesting.Action) (bool, runtime.Object, error) { return true, nil, page() })
	other := newSemaphore(t, writing)
	if answer := other.Acquire(t.Context(), request("b")); answer.Verdict != Unknown || len(other.back) != 1 {
		t.Errorf("%+v, releases %v; want it unknown, and looked at again", answer, other.back)
	}
}

// A permit that is taken while those from before the start are read stays as it was taken.
func TestPermitTakenDuringTheRestoreStays(t *testing.T) {
	t.Parallel()
	b := newSemaphore(t, fake.NewClientset())
	newer := permit{pool: "shop/Job/night", lease: "x-0", identity: "n/a", version: "2"}
	b.options.Now = func() time.Time {
		b.hold(newer) // as by a Acquire on the loop's goroutine
		return time.Time{}
	}
	b.readopt(permit{pool: "shop/Job/night", lease: "x-0", identity: "n/a", version: "1"}, time.Minute)
	if got := b.held[nightly("a")]; got != newer {
		t.Errorf("holds %+v, want %+v", got, newer)
	}
}

// counting notes what was told of the permits held.
type counting struct {
	mute

	held int
}

func (c *counting) PermitsHeld(n int) { c.held = n }

// TestDryRunsPermitsAreDroppedAndReported: a real request drops what dry runs hold, and reports it
// although it gets no permit.
func TestDryRunsPermitsAreDroppedAndReported(t *testing.T) {
	t.Parallel()
	client := versioned(t)
	b, told := newSemaphore(t, client), &counting{}
	b.options.Recorder = told
	dryRun := request("a")
	dryRun.DryRun = true
	if b.Acquire(t.Context(), dryRun); told.held != 1 {
		t.Fatalf("%d held, want one", told.held)
	}
	client.PrependReactor("create", "leases", func(kubetesting.Action) (bool, runtime.Object, error) {
		return true, nil, errors.New("no route to host")
	})
	if b.Acquire(t.Context(), request("b")); told.held != 0 || len(b.held) != 0 {
		t.Errorf("told of %d held, holds %v", told.held, b.held)
	}
}

// TestFaultForeignLeaseThatStaysKeepsNoOwnPermits: a webhook for Leases fails, and a node is lost:
// its Lease cannot be removed. This node's own Leases are found and released all the same.
func TestFaultForeignLeaseThatStaysKeepsNoOwnPermits(t *testing.T) {
	t.Parallel()
	minute := int32(60)
	lease := func(index int, holder string, renewed metav1.MicroTime) *coordinationv1.Lease {
		return &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "evictd", Name: leaseName("shop/Job/night", index), UID: "u", ResourceVersion: "1",
				Labels: map[string]string{LabelPermit: hashOf("shop/Job/night")}, Annotations: map[string]string{AnnotationWorkload: "shop/Job/night"},
			},
			Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &minute, RenewTime: &renewed},
		}
	}
	synctest.Test(t, func(t *testing.T) {
		long, now := metav1.NewMicroTime(time.Now().Add(-48*time.Hour)), metav1.NowMicro()
		client := fake.NewClientset(lease(0, "lost/x", long), lease(1, "n/mine", now))
		stays, removed := leaseName("shop/Job/night", 0), []string{}
		client.PrependReactor("delete", "leases", func(action kubetesting.Action) (bool, runtime.Object, error) {
			deletion, ok := action.(kubetesting.DeleteAction)
			if ok && deletion.GetName() == stays {
				return true, nil, apierrors.NewInternalError(errors.New("failed calling webhook"))
			}
			removed = append(removed, deletion.GetName())
			return false, nil, nil
		})
		ctx, stop := context.WithCancel(t.Context())
		told := &tells{}
		b := New(Options{
			Leases: client.CoordinationV1().Leases("evictd"), Node: "n", Now: time.Now, Random: func() float64 { return 0 },
			Recorder: told, Restore: true,
		})
		ended := make(chan error, 1)
		go func() { ended <- b.Run(ctx) }()
		synctest.Wait()
		b.Release("mine")
		time.Sleep(30 * time.Second)
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if want := []string{leaseName("shop/Job/night", 1)}; !slices.Equal(removed, want) {
			t.Errorf("released: %v, want this node's own, %v", removed, want)
		}
		if len(told.errors) != 1 || !strings.Contains(told.errors[0].Error(), "failed calling webhook") {
			t.Errorf("told %v, want the fault of the foreign Lease once", told.errors)
		}
	})
}

// tells hands on what could not be done.
type tells struct {
	mute

	errors []error
}

func (r *tells) PermitError(err error) { r.errors = append(r.errors, err) }

// TestFaultFewerPermitsLoseNoLease: PerWorkload is lowered while a victim holds a permit of a higher
// index: it gets another, and the first is released.
func TestFaultFewerPermitsLoseNoLease(t *testing.T) {
	t.Parallel()
	client := versioned(t)
	b := newSemaphore(t, client)
	for _, uid := range []string{"a", "b"} {
		if answer := b.Acquire(t.Context(), request(uid)); answer.Verdict != Granted {
			t.Fatal(answer)
		}
	}
	b.Release("a") // of index 0
	fewer := request("b")
	fewer.Limits.PerWorkload = 1
	for _, s := range b.back { // as Run does
		if err := b.remove(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	b.back = nil
	if answer := b.Acquire(t.Context(), fewer); answer.Verdict != Granted {
		t.Fatal(answer)
	}
	if len(b.back) != 1 || b.back[0].lease != leaseName("shop/Job/night", 1) {
		t.Errorf("to be released: %+v, want the permit of index 1", b.back)
	}
	for _, s := range b.back {
		s.version = "" // as after a renewal without a response
		if err := b.remove(t.Context(), s); err != nil {
			t.Error(err)
		}
	}
	list, err := client.CoordinationV1().Leases("evictd").List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) != 1 || list.Items[0].Name != leaseName("shop/Job/night", 0) {
		t.Errorf("%v, Leases %v, want that of index 0 alone", err, list.Items)
	}
}

// TestPermitOfTheClusterBesideTheWorkloads: a victim needs both; where one is missing it keeps none that it
// did not have before, and its end releases both.
func TestPermitOfTheClusterBesideTheWorkloads(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client := versioned(t)
		b := newSemaphore(t, client)
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go func() { _ = b.Run(ctx) }()
		both := func(uid, owner string) Request {
			r := request(uid)
			r.Pod.Owner, r.Limits = owner, pools.Limits{PerWorkload: 1, PerCluster: 2}
			return r
		}
		held := func() (names []string) {
			t.Helper()
			synctest.Wait()
			list, err := client.CoordinationV1().Leases("evictd").List(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			for i := range list.Items {
				names = append(names, list.Items[i].Annotations[AnnotationWorkload]+" "+list.Items[i].Annotations[AnnotationVictim])
			}
			slices.Sort(names)
			return names
		}
		for _, step := range []struct {
			uid, owner string
			verdict    Verdict
			pool       string
		}{
			{"a", "Job/night", Granted, ""},
			{"b", "Job/night", Full, "shop/Job/night"},
			{"c", "Job/day", Granted, ""},
			{"d", "Job/noon", Full, pools.Cluster},
			{"e", "", Full, pools.Cluster},
			{"a", "Job/night", Granted, ""},
		} {
			if answer := b.Acquire(ctx, both(step.uid, step.owner)); answer.Verdict != step.verdict || answer.Pool.Name != step.pool {
				t.Errorf("%s: %+v, want %s by %q", step.uid, answer, step.verdict, step.pool)
			}
		}
		want := []string{"cluster shop/a", "cluster shop/c", "shop/Job/day shop/c", "shop/Job/night shop/a"}
		if diff := cmp.Diff(want, held()); diff != "" {
			t.Errorf("Leases (-want +got):\n%s", diff)
		}
		b.ReleaseEnded(func(uid string) bool { return uid == "c" }, func(string) bool { return false })
		if diff := cmp.Diff(want[1:3], held()); diff != "" {
			t.Errorf("Leases after the end of a (-want +got):\n%s", diff)
		}
		if answer := b.Acquire(ctx, both("e", "")); answer.Verdict != Granted {
			t.Errorf("a pod without a workload: %+v", answer)
		}
	})
}

// TestVictimInFlightKeepsItsPermitWhereTheClusterIsFull: a limit that is set later costs a victim nothing.
func TestVictimInFlightKeepsItsPermitWhereTheClusterIsFull(t *testing.T) {
	t.Parallel()
	client := versioned(t)
	b := newSemaphore(t, client)
	first, other := request("a"), request("b")
	other.Pod.Owner, other.Limits = "", pools.Limits{PerCluster: 1}
	if b.Acquire(t.Context(), first).Verdict != Granted || b.Acquire(t.Context(), other).Verdict != Granted {
		t.Fatal("no permit")
	}
	first.Limits.PerCluster = 1
	if answer := b.Acquire(t.Context(), first); answer.Verdict != Full || answer.Pool.Name != pools.Cluster || !b.holds(nightly("a")) {
		t.Errorf("%+v; holds its permit: %v", answer, b.holds(nightly("a")))
	}
}
