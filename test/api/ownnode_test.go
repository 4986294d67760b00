package api

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/evictd/evictd/pkg/evict"
	"github.com/evictd/evictd/test/internal/evictdtest"
)

// refused fails the test unless the API server denied the request with these words.
func refused(t *testing.T, what string, err error, fragments ...string) {
	t.Helper()
	t.Logf("%s: %v", what, err)
	if !apierrors.IsForbidden(err) {
		t.Errorf("%s: %v, want it forbidden", what, err)
		return
	}
	for _, fragment := range fragments {
		if !strings.Contains(err.Error(), fragment) {
			t.Errorf("%s: %v lacks %q", what, err, fragment)
		}
	}
}

// The same token and the same kind of pod, without and with the policies: only the policies
// make the difference.
func TestOwnNode(t *testing.T) {
	f := evictdtest.NewAccount(t) // not parallel: account, role and policies are the cluster's
	before := f.PodOn(f.Far, "before")
	f.Until("another node's pod is evicted, for want of policies", func(ctx context.Context) bool {
		return evictdtest.Evictor(t, f.Here).Evict(ctx, evictdtest.RequestFor(before)).Outcome == evict.Evicted
	})
	if !f.Terminating("before") {
		t.Fatal("without the policies the other node's pod was not evicted: what follows would prove nothing")
	}
	f.Confine()
	t.Run("evictions", func(t *testing.T) { evictionsAreConfined(t, f.Again(t)) })
	t.Run("what an eviction must name", func(t *testing.T) { evictionsNameNodeAndUID(t, f.Again(t)) })
	t.Run("pod that would go at once", func(t *testing.T) { evictionsLeaveTime(t, f.Again(t)) })
	t.Run("pod that is not bound", func(t *testing.T) { unboundPodIsDenied(t, f.Again(t)) })
	t.Run("no other account is bound", func(t *testing.T) { noOtherAccountIsBound(t, f.Again(t)) })
	t.Run("Events", func(t *testing.T) { eventsAreConfined(t, f.Again(t)) })
	t.Run("taints once granted", func(t *testing.T) { taintsAreConfined(t, f.Again(t)) })
}

func evictionsAreConfined(t *testing.T, f *evictdtest.Account) {
	t.Helper()
	mine, theirs := f.PodOn(f.Near, "mine"), f.PodOn(f.Far, "theirs")
	for _, dryRun := range []bool{true, false} {
		request := func(pod *corev1.Pod) evict.Request {
			r := evictdtest.RequestFor(pod)
			r.DryRun = dryRun
			return r
		}
		cached(f, theirs)
		outcome(t, f.Here, request(theirs), evict.Denied, http.StatusForbidden,
			"evictd-evicts-on-own-node", `evictd on node "`+f.Near+`" may evict only pods of that node`,
			"pod "+f.Namespace+`/theirs is on node "`+f.Far+`"`)
		expect(t, evictdtest.Evictor(t, f.Nowhere).Evict(t.Context(), request(mine)), evict.Denied, "token that names its node")
		want := evict.Evicted
		if dryRun {
			want = evict.WouldEvict
		}
		outcome(t, f.Here, request(mine), want, http.StatusCreated)
	}
	if f.Terminating("theirs") || !f.Terminating("mine") {
		t.Error("the wrong pod is terminating")
	}
}

// cached waits until the API server's own cache has a pod that is not on the near node: the
// gap in docs/security.md, which lasts milliseconds.
func cached(f *evictdtest.Account, pod *corev1.Pod) {
	f.T.Helper()
	request := evictdtest.RequestFor(pod)
	request.DryRun = true
	f.Until("the API server's cache has pod "+pod.Name, func(ctx context.Context) bool {
		return evictdtest.Evictor(f.T, f.Here).Evict(ctx, request).Outcome == evict.Denied
	})
}

// These rules apply also where the other policy has no pod to check.
func evictionsNameNodeAndUID(t *testing.T, f *evictdtest.Account) {
	t.Helper()
	request := evict.Request{Namespace: f.Namespace, Name: "absent", UID: "x"}
	expect(t, evictdtest.Evictor(t, f.Nowhere).Evict(t.Context(), request), evict.Denied, "token that names its node")
	expect(t, evictdtest.Evictor(t, f.Here).Evict(t.Context(), request), evict.Gone)
	f.PodOn(f.Near, "mine")
	err := f.As(f.Here).PolicyV1().Evictions(f.Namespace).Evict(t.Context(), &policyv1.Eviction{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.Namespace, Name: "mine"},
	})
	refused(t, "evicting without a UID", err, "only by its UID")
	if f.Terminating("mine") {
		t.Error("the pod is terminating")
	}
}

// A grace period of 0 would remove a pod from the API server while it runs. Evictd keeps the
// grace period of a pod whose own is 0, so such a pod can be evicted.
func evictionsLeaveTime(t *testing.T, f *evictdtest.Account) {
	t.Helper()
	evictor, zero, one := evictdtest.Evictor(t, f.Here), int64(0), int64(1)
	for name, grace := range map[string]*int64{"own": nil, "short": &one} {
		pod := f.PodOn(f.Near, name)
		for _, dryRun := range []bool{true, false} {
			request := evictdtest.RequestFor(pod)
			request.GraceSeconds, request.DryRun = &zero, dryRun
			expect(t, evictor.Evict(t.Context(), request), evict.Denied, "may not evict a pod at once")
		}
		if f.Terminating(name) {
			t.Errorf("%s is terminating", name)
		}
		request := evictdtest.RequestFor(pod)
		request.GraceSeconds = grace
		outcome(t, f.Here, request, evict.Evicted, http.StatusCreated)
		request.GraceSeconds = &zero // nor may a terminating pod's grace period be shortened to 0
		expect(t, evictor.Evict(t.Context(), request), evict.Denied, "may not evict a pod at once")
	}
	hasty, err := f.Client.CoreV1().Pods(f.Namespace).Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "hasty"},
		Spec: corev1.PodSpec{
			NodeName: f.Near, TerminationGracePeriodSeconds: &zero, Containers: []corev1.Container{{Name: "c", Image: "none"}},
		},
	}, metav1.CreateOptions{})
	f.Must(err)
	expect(t, evictor.Evict(t.Context(), evictdtest.RequestFor(hasty)), evict.Evicted)
}

func unboundPodIsDenied(t *testing.T, f *evictdtest.Account) {
	t.Helper()
	unbound := f.PodOn("", "unbound")
	cached(f, unbound)
	expect(t, evictdtest.Evictor(t, f.Here).Evict(t.Context(), evictdtest.RequestFor(unbound)), evict.Denied, `/unbound is on node ""`)
}

// A policy is evaluated for the requests of all accounts and binds only evictd.
func noOtherAccountIsBound(t *testing.T, f *evictdtest.Account) {
	t.Helper()
	drain := func(name string) error {
		return f.Client.PolicyV1().Evictions(f.Namespace).Evict(t.Context(), &policyv1.Eviction{
			ObjectMeta: metav1.ObjectMeta{Namespace: f.Namespace, Name: name},
		})
	}
	if err := drain("absent"); !apierrors.IsNotFound(err) {
		t.Errorf("evicting a pod that is not there, in a namespace without pods: %v, want not found, which a drain takes for done", err)
	}
	f.PodOn(f.Far, "theirs")
	f.Must(drain("theirs"))
	_, err := f.Client.CoreV1().Nodes().Patch(t.Context(), f.Far, types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`), metav1.PatchOptions{})
	f.Must(err)
	now := int64(0)
	f.Must(f.Client.CoreV1().Pods(f.Namespace).Delete(t.Context(), "theirs", metav1.DeleteOptions{GracePeriodSeconds: &now}))
}

// patch changes a node with those credentials.
func patch(f *evictdtest.Account, ctx context.Context, as *rest.Config, node, text string, subresources ...string) error {
	f.T.Helper()
	_, err := f.As(as).CoreV1().Nodes().Patch(ctx, node, types.MergePatchType, []byte(text), metav1.PatchOptions{}, subresources...)
	return err
}

// taints returns the near node's current taints: the node controllers taint a node without a
// kubelet.
func taints(f *evictdtest.Account, ctx context.Context) []string {
	f.T.Helper()
	node, err := f.Client.CoreV1().Nodes().Get(ctx, f.Near, metav1.GetOptions{})
	f.Must(err)
	var list []string
	for _, taint := range node.Spec.Taints {
		text, err := json.Marshal(taint)
		f.Must(err)
		list = append(list, string(text))
	}
	return list
}

// asTaints is a merge patch, which replaces the whole list.
func asTaints(list ...string) string { return `{"spec":{"taints":[` + strings.Join(list, ",") + `]}}` }

// An overlay may give the right to taint; the policies still confine it to the node and
// evictd's own keys.
func taintsAreConfined(t *testing.T, f *evictdtest.Account) {
	t.Helper()
	f.Allow("create,update,patch,delete", "nodes,nodes/status")
	const (
		own     = `{"key":"evictd.dev/pressure","effect":"NoSchedule"}`
		soft    = `{"key":"evictd.dev/pressure","effect":"PreferNoSchedule"}`
		other   = `{"key":"example.org/evictd.dev","effect":"NoSchedule"}`
		node    = "may change only the taints of that node"
		nothing = "may change nothing of its node but taints"
	)
	f.Must(patch(f, t.Context(), evictdtest.Unlimited(), f.Near, asTaints(append(taints(f, t.Context()), other)...)))
	f.Must(patch(f, t.Context(), evictdtest.Unlimited(), f.Near, `{"spec":{"unschedulable":true}}`))
	// Another client's taint may be written between the read and the write, which then
	// conflicts.
	f.Until("evictd sets its own taints beside the others", func(ctx context.Context) bool {
		return patch(f, ctx, f.Here, f.Near, asTaints(append(taints(f, ctx), own, soft)...)) == nil
	})
	refused(t, "another node's taint", patch(f, t.Context(), f.Here, f.Far, asTaints(own)), node, `UPDATE on node "`+f.Far+`"`)
	refused(t, "a token without a node", patch(f, t.Context(), f.Nowhere, f.Near, asTaints(own)), node)
	refused(t, "the status", patch(f, t.Context(), f.Here, f.Near, `{"status":{"phase":"Terminated"}}`, "status"), node, "UPDATE of its status")
	refused(t, "deleting the node", f.As(f.Here).CoreV1().Nodes().Delete(t.Context(), f.Near, metav1.DeleteOptions{}), node)
	_, err := f.As(f.Here).CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{GenerateName: "new-"}}, metav1.CreateOptions{})
	refused(t, "making a node", err, node)
	refused(t, "taking another's taint away", patch(f, t.Context(), f.Here, f.Near, asTaints(own)), nothing)
	refused(t, "a taint of another key", patch(f, t.Context(), f.Here, f.Near, asTaints(append(taints(f, t.Context()), `{"key":"example.org/x","effect":"NoExecute"}`)...)), nothing)
	refused(t, "a taint that drives pods off", patch(f, t.Context(), f.Here, f.Near, asTaints(append(taints(f, t.Context()), `{"key":"evictd.dev/x","effect":"NoExecute"}`)...)), nothing)
	for _, change := range []string{
		`{"spec":{"unschedulable":null}}`, `{"spec":{"providerID":"x://y"}}`,
		`{"metadata":{"labels":{"a":"b"}}}`, `{"metadata":{"annotations":{"a":"b"}}}`, `{"metadata":{"finalizers":["a.b/c"]}}`,
	} {
		refused(t, change, patch(f, t.Context(), f.Here, f.Near, change), nothing)
	}
	f.Until("evictd takes its own taints away again", func(ctx context.Context) bool {
		rest := slices.DeleteFunc(taints(f, ctx), func(taint string) bool { return taint == own || taint == soft })
		return patch(f, ctx, f.Here, f.Near, asTaints(rest...)) == nil
	})
	if after := taints(f, t.Context()); slices.Contains(after, own) || slices.Contains(after, soft) || !slices.Contains(after, other) {
		t.Errorf("the taints at the end: %v", after)
	}
}
