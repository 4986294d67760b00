package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/evictd/evictd/pkg/evict"
)

// fenced is a namespace, two nodes and evictd's shipped account.
type fenced struct {
	*world
	near, far string // the nodes
	// here is evictd's token on the near node, nowhere one that names no node.
	here, nowhere *rest.Config
}

func newFenced(tb testing.TB) *fenced {
	tb.Helper()
	f := &fenced{world: newWorld(tb)}
	f.near, f.far = f.node, f.node+"-far"
	_, err := f.client.CoreV1().Nodes().Create(tb.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: f.far}}, metav1.CreateOptions{})
	f.must(err)
	tb.Cleanup(func() { _ = f.client.CoreV1().Nodes().Delete(context.Background(), f.far, metav1.DeleteOptions{}) })
	f.ship(rights())
	f.here, f.nowhere = f.token(f.runningEvictd(f.near)), f.token(nil)
	return f
}

// again has the same nodes and tokens with another namespace.
func (f *fenced) again(t *testing.T) *fenced {
	t.Helper()
	another := *f
	another.world = newWorld(t)
	return &another
}

// podOn makes a pod on one of the two nodes.
func (f *fenced) podOn(node, name string) *corev1.Pod {
	f.t.Helper()
	on := *f.world
	on.node = node
	return on.pod(name, 10)
}

// confine applies the shipped policies and waits until each of them is in effect, which
// takes a moment.
func (f *fenced) confine() {
	f.t.Helper()
	theirs := requestFor(f.podOn(f.far, "probe"))
	f.ship(policies())
	f.t.Cleanup(func() { f.unship(policies()) })
	for policy, probe := range map[string]func(context.Context) string{
		"evictd-evicts-on-own-node": func(ctx context.Context) string {
			theirs.DryRun = true
			return evictorFor(f.t, f.here).Evict(ctx, theirs).Message
		},
		// Without a pod of that name the other policy does not apply.
		"evictd-on-own-node": func(ctx context.Context) string {
			return evictorFor(f.t, f.nowhere).Evict(ctx, evict.Request{Namespace: f.namespace, Name: "absent", UID: "x", DryRun: true}).Message
		},
		"evictd-events-of-own-node": func(ctx context.Context) string {
			return fmt.Sprint(f.event(ctx, f.nowhere, "probe", func(*corev1.Event) {}))
		},
		// The administrator impersonates evictd, with a token that names no node.
		"evictd-taints-own-node": func(ctx context.Context) string {
			inItsName := unlimited()
			inItsName.Impersonate = rest.ImpersonationConfig{UserName: accountUser, Groups: []string{"system:masters"}}
			_, err := f.as(inItsName).CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "probe"}},
				metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			return fmt.Sprint(err)
		},
	} {
		f.until("the policy "+policy+" is in force", func(ctx context.Context) bool {
			return strings.Contains(probe(ctx), "'"+policy+"'")
		})
	}
}

// as returns a client with those credentials.
func (f *fenced) as(config *rest.Config) kubernetes.Interface {
	f.t.Helper()
	client, err := kubernetes.NewForConfig(config)
	f.must(err)
	return client
}

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
	f := newFenced(t) // not parallel: account, role and policies are the cluster's
	before := f.podOn(f.far, "before")
	f.until("another node's pod is evicted, for want of policies", func(ctx context.Context) bool {
		return evictorFor(t, f.here).Evict(ctx, requestFor(before)).Outcome == evict.Evicted
	})
	if !f.terminating("before") {
		t.Fatal("without the policies the other node's pod was not evicted: what follows would prove nothing")
	}
	f.confine()
	t.Run("evictions", func(t *testing.T) { evictionsAreConfined(t, f.again(t)) })
	t.Run("what an eviction must name", func(t *testing.T) { evictionsNameNodeAndUID(t, f.again(t)) })
	t.Run("pod that would go at once", func(t *testing.T) { evictionsLeaveTime(t, f.again(t)) })
	t.Run("pod that is not bound", func(t *testing.T) { unboundPodIsDenied(t, f.again(t)) })
	t.Run("no other account is bound", func(t *testing.T) { noOtherAccountIsBound(t, f.again(t)) })
	t.Run("no other rights", func(t *testing.T) { noOtherRights(t, f.again(t)) })
	t.Run("deletes once granted", func(t *testing.T) { deletesAreConfined(t, f.again(t)) })
	t.Run("Events", func(t *testing.T) { eventsAreConfined(t, f.again(t)) })
	t.Run("taints once granted", func(t *testing.T) { taintsAreConfined(t, f.again(t)) })
}

func evictionsAreConfined(t *testing.T, f *fenced) {
	t.Helper()
	mine, theirs := f.podOn(f.near, "mine"), f.podOn(f.far, "theirs")
	for _, dryRun := range []bool{true, false} {
		request := func(pod *corev1.Pod) evict.Request {
			r := requestFor(pod)
			r.DryRun = dryRun
			return r
		}
		f.cached(theirs)
		config, seen := listening(rest.CopyConfig(f.here))
		expect(t, evictorFor(t, config).Evict(t.Context(), request(theirs)), evict.Denied,
			"evictd-evicts-on-own-node", `evictd on node "`+f.near+`" may evict only pods of that node`,
			"pod "+f.namespace+`/theirs is on node "`+f.far+`"`)
		expectCode(t, seen, http.StatusForbidden)
		expect(t, evictorFor(t, f.nowhere).Evict(t.Context(), request(mine)), evict.Denied, "token that names its node")
		want := evict.Evicted
		if dryRun {
			want = evict.WouldEvict
		}
		config, seen = listening(rest.CopyConfig(f.here))
		expect(t, evictorFor(t, config).Evict(t.Context(), request(mine)), want)
		expectCode(t, seen, http.StatusCreated)
	}
	if f.terminating("theirs") || !f.terminating("mine") {
		t.Error("the wrong pod is terminating")
	}
}

// cached waits until the API server's own cache has a pod that is not on the near node: the
// gap in docs/security.md, which lasts milliseconds.
func (f *fenced) cached(pod *corev1.Pod) {
	f.t.Helper()
	request := requestFor(pod)
	request.DryRun = true
	f.until("the API server's cache has pod "+pod.Name, func(ctx context.Context) bool {
		return evictorFor(f.t, f.here).Evict(ctx, request).Outcome == evict.Denied
	})
}

// These rules apply also where the other policy has no pod to check.
func evictionsNameNodeAndUID(t *testing.T, f *fenced) {
	t.Helper()
	request := evict.Request{Namespace: f.namespace, Name: "absent", UID: "x"}
	expect(t, evictorFor(t, f.nowhere).Evict(t.Context(), request), evict.Denied, "token that names its node")
	expect(t, evictorFor(t, f.here).Evict(t.Context(), request), evict.Gone)
	f.podOn(f.near, "mine")
	err := f.as(f.here).PolicyV1().Evictions(f.namespace).Evict(t.Context(), &policyv1.Eviction{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "mine"},
	})
	refused(t, "evicting without a UID", err, "only by its UID")
	if f.terminating("mine") {
		t.Error("the pod is terminating")
	}
}

// A grace period of 0 would remove a pod from the API server while it runs. Evictd keeps the
// grace period of a pod whose own is 0, so such a pod can be evicted.
func evictionsLeaveTime(t *testing.T, f *fenced) {
	t.Helper()
	evictor, zero, one := evictorFor(t, f.here), int64(0), int64(1)
	for name, grace := range map[string]*int64{"own": nil, "short": &one} {
		pod := f.podOn(f.near, name)
		for _, dryRun := range []bool{true, false} {
			request := requestFor(pod)
			request.GraceSeconds, request.DryRun = &zero, dryRun
			expect(t, evictor.Evict(t.Context(), request), evict.Denied, "may not evict a pod at once")
		}
		if f.terminating(name) {
			t.Errorf("%s is terminating", name)
		}
		request := requestFor(pod)
		request.GraceSeconds = grace
		config, seen := listening(rest.CopyConfig(f.here))
		expect(t, evictorFor(t, config).Evict(t.Context(), request), evict.Evicted)
		expectCode(t, seen, http.StatusCreated)
		request.GraceSeconds = &zero // nor may a terminating pod's grace period be shortened to 0
		expect(t, evictor.Evict(t.Context(), request), evict.Denied, "may not evict a pod at once")
	}
	hasty, err := f.client.CoreV1().Pods(f.namespace).Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "hasty"},
		Spec: corev1.PodSpec{
			NodeName: f.near, TerminationGracePeriodSeconds: &zero, Containers: []corev1.Container{{Name: "c", Image: "none"}},
		},
	}, metav1.CreateOptions{})
	f.must(err)
	expect(t, evictor.Evict(t.Context(), requestFor(hasty)), evict.Evicted)
}

func unboundPodIsDenied(t *testing.T, f *fenced) {
	t.Helper()
	unbound := f.podOn("", "unbound")
	f.cached(unbound)
	expect(t, evictorFor(t, f.here).Evict(t.Context(), requestFor(unbound)), evict.Denied, `/unbound is on node ""`)
}

// A policy is evaluated for the requests of all accounts and binds only evictd.
func noOtherAccountIsBound(t *testing.T, f *fenced) {
	t.Helper()
	drain := func(name string) error {
		return f.client.PolicyV1().Evictions(f.namespace).Evict(t.Context(), &policyv1.Eviction{
			ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: name},
		})
	}
	if err := drain("absent"); !apierrors.IsNotFound(err) {
		t.Errorf("evicting a pod that is not there, in a namespace without pods: %v, want not found, which a drain takes for done", err)
	}
	f.podOn(f.far, "theirs")
	f.must(drain("theirs"))
	_, err := f.client.CoreV1().Nodes().Patch(t.Context(), f.far, types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`), metav1.PatchOptions{})
	f.must(err)
	now := int64(0)
	f.must(f.client.CoreV1().Pods(f.namespace).Delete(t.Context(), "theirs", metav1.DeleteOptions{GracePeriodSeconds: &now}))
}

// Without an overlay the rights alone forbid all this, also on the own node.
func noOtherRights(t *testing.T, f *fenced) {
	t.Helper()
	f.podOn(f.near, "mine")
	evictd := f.as(f.here).CoreV1()
	_, err := evictd.Pods("").List(t.Context(), metav1.ListOptions{FieldSelector: "spec.nodeName=" + f.near})
	f.must(err)
	refused(t, "deleting a pod", evictd.Pods(f.namespace).Delete(t.Context(), "mine", metav1.DeleteOptions{}), "cannot delete")
	_, err = evictd.Nodes().Patch(t.Context(), f.near, types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`), metav1.PatchOptions{})
	refused(t, "patching a node", err, "cannot patch")
	_, err = evictd.Secrets(f.namespace).Get(t.Context(), "any", metav1.GetOptions{})
	refused(t, "reading a secret", err, "cannot get")
	_, err = evictd.Secrets(f.namespace).List(t.Context(), metav1.ListOptions{})
	refused(t, "listing secrets", err, "cannot list")
}

// An overlay may give the right to delete; the policies still confine it to the node.
func deletesAreConfined(t *testing.T, f *fenced) {
	t.Helper()
	f.allow(rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"delete", "deletecollection"}})
	mine, theirs := f.podOn(f.near, "mine"), f.podOn(f.far, "theirs")
	evictd, lost := f.as(f.here).CoreV1().Pods(f.namespace), f.as(f.nowhere).CoreV1().Pods(f.namespace)
	dryRun := metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}
	f.until("the API server has read the overlay's role", func(ctx context.Context) bool {
		return evictd.Delete(ctx, mine.Name, dryRun) == nil
	})
	others := `evictd on node "` + f.near + `" may delete only pods of that node, and pod ` + f.namespace + "/theirs"
	for _, options := range []metav1.DeleteOptions{dryRun, {}} {
		refused(t, "deleting another node's pod", evictd.Delete(t.Context(), theirs.Name, options), others)
		refused(t, "deleting by a token without a node", lost.Delete(t.Context(), mine.Name, options), "token that names its node")
	}
	refused(t, "deleting a collection", evictd.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{FieldSelector: "metadata.name=theirs"}), others)
	f.must(evictd.Delete(t.Context(), mine.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &mine.UID}}))
	if f.terminating("theirs") || !f.terminating("mine") {
		t.Error("the wrong pod is terminating")
	}
}

// patch changes a node with those credentials.
func (f *fenced) patch(ctx context.Context, as *rest.Config, node, text string, subresources ...string) error {
	f.t.Helper()
	_, err := f.as(as).CoreV1().Nodes().Patch(ctx, node, types.MergePatchType, []byte(text), metav1.PatchOptions{}, subresources...)
	return err
}

// taints returns the near node's current taints: the node controllers taint a node without a
// kubelet.
func (f *fenced) taints(ctx context.Context) []string {
	f.t.Helper()
	node, err := f.client.CoreV1().Nodes().Get(ctx, f.near, metav1.GetOptions{})
	f.must(err)
	var list []string
	for _, taint := range node.Spec.Taints {
		text, err := json.Marshal(taint)
		f.must(err)
		list = append(list, string(text))
	}
	return list
}

// asTaints is a merge patch, which replaces the whole list.
func asTaints(list ...string) string { return `{"spec":{"taints":[` + strings.Join(list, ",") + `]}}` }

// An overlay may give the right to taint; the policies still confine it to the node and
// evictd's own keys.
func taintsAreConfined(t *testing.T, f *fenced) {
	t.Helper()
	f.allow(rbacv1.PolicyRule{
		APIGroups: []string{""}, Resources: []string{"nodes", "nodes/status"}, Verbs: []string{"create", "update", "patch", "delete"},
	})
	const (
		own     = `{"key":"evictd.dev/pressure","effect":"NoSchedule"}`
		other   = `{"key":"example.org/evictd.dev","effect":"NoSchedule"}`
		node    = "may change only the taints of that node"
		nothing = "may change nothing of its node but taints"
	)
	f.must(f.patch(t.Context(), unlimited(), f.near, asTaints(append(f.taints(t.Context()), other)...)))
	f.must(f.patch(t.Context(), unlimited(), f.near, `{"spec":{"unschedulable":true}}`))
	// Another client's taint may be written between the read and the write, which then
	// conflicts.
	f.until("evictd sets its own taint beside the others", func(ctx context.Context) bool {
		return f.patch(ctx, f.here, f.near, asTaints(append(f.taints(ctx), own)...)) == nil
	})
	refused(t, "another node's taint", f.patch(t.Context(), f.here, f.far, asTaints(own)), node, `UPDATE on node "`+f.far+`"`)
	refused(t, "a token without a node", f.patch(t.Context(), f.nowhere, f.near, asTaints(own)), node)
	refused(t, "the status", f.patch(t.Context(), f.here, f.near, `{"status":{"phase":"Terminated"}}`, "status"), node, "UPDATE of its status")
	refused(t, "deleting the node", f.as(f.here).CoreV1().Nodes().Delete(t.Context(), f.near, metav1.DeleteOptions{}), node)
	_, err := f.as(f.here).CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{GenerateName: "new-"}}, metav1.CreateOptions{})
	refused(t, "making a node", err, node)
	refused(t, "taking another's taint away", f.patch(t.Context(), f.here, f.near, asTaints(own)), nothing)
	refused(t, "a taint of another key", f.patch(t.Context(), f.here, f.near, asTaints(append(f.taints(t.Context()), `{"key":"example.org/x","effect":"NoExecute"}`)...)), nothing)
	refused(t, "a taint that drives pods off", f.patch(t.Context(), f.here, f.near, asTaints(append(f.taints(t.Context()), `{"key":"evictd.dev/x","effect":"NoExecute"}`)...)), nothing)
	for _, change := range []string{
		`{"spec":{"unschedulable":null}}`, `{"spec":{"providerID":"x://y"}}`,
		`{"metadata":{"labels":{"a":"b"}}}`, `{"metadata":{"annotations":{"a":"b"}}}`, `{"metadata":{"finalizers":["a.b/c"]}}`,
	} {
		refused(t, change, f.patch(t.Context(), f.here, f.near, change), nothing)
	}
	f.until("evictd takes its own taint away again", func(ctx context.Context) bool {
		rest := slices.DeleteFunc(f.taints(ctx), func(taint string) bool { return taint == own })
		return f.patch(ctx, f.here, f.near, asTaints(rest...)) == nil
	})
	if after := f.taints(t.Context()); slices.Contains(after, own) || !slices.Contains(after, other) {
		t.Errorf("the taints at the end: %v", after)
	}
}

// The cost of the policies: one that has pods as parameters is evaluated for each pod of the
// namespace, for the evictions of all accounts.
func BenchmarkEvictionDryRun(b *testing.B) {
	f := newFenced(b)
	const pods = 300
	mine := requestFor(f.podOn(f.near, "mine"))
	mine.DryRun = true
	for i := range pods - 2 { // the probe is another one
		f.podOn(f.far, fmt.Sprintf("other-%d", i))
	}
	f.until("the API server has read the role", func(ctx context.Context) bool {
		return evictorFor(b, f.here).Evict(ctx, mine).Outcome == evict.WouldEvict
	})
	run := func(name string) {
		for account, as := range map[string]*rest.Config{"evictd": f.here, "administrator": unlimited()} {
			b.Run(fmt.Sprintf("%s/%s/pods=%d", name, account, pods), func(b *testing.B) {
				evictor := evictorFor(b, as)
				for b.Loop() {
					if got := evictor.Evict(b.Context(), mine); got.Outcome != evict.WouldEvict {
						b.Fatal(got)
					}
				}
			})
		}
	}
	run("without policies")
	f.confine()
	run("with policies")
}
