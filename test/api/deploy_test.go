package api

import (
	"context"
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/evictd/evictd/pkg/evict"
	"github.com/evictd/evictd/test/internal/evictdtest"
)

// The quota counts the pods of the DaemonSet's priority class, as a quota admission that
// limits critical pods requires.
func TestQuotaCountsEvictdsPods(t *testing.T) {
	w := evictdtest.NewWorld(t) // not parallel: the namespace is the cluster's
	w.Ship(append(evictdtest.Rights(), "ResourceQuota"))
	w.Unship([]string{"ResourceQuota"})
	for _, class := range []string{"system-node-critical", ""} {
		own := evictdtest.OwnPod(w.Node)
		own.Spec.PriorityClassName = class
		pod, err := w.Client.CoreV1().Pods(evictdtest.AccountName).Create(t.Context(), own, metav1.CreateOptions{})
		w.Must(err)
		w.Undo(func(ctx context.Context) {
			_ = w.Client.CoreV1().Pods(evictdtest.AccountName).Delete(ctx, pod.Name, evictdtest.AtOnce())
		})
	}
	w.Until("the quota counts the critical pod alone", func(ctx context.Context) bool {
		quota, err := w.Client.CoreV1().ResourceQuotas(evictdtest.AccountName).Get(ctx, "evictd", metav1.GetOptions{})
		return err == nil && quota.Status.Used.Pods().Value() == 1
	})
}

// The evictions of evictd's account use the shipped FlowSchema, at the priority level of the
// controllers. Its other requests and other accounts' evictions do not.
func TestFlowSchemaTakesEvictdsEvictions(t *testing.T) {
	f := evictdtest.NewAccount(t) // not parallel: the FlowSchema is the cluster's
	f.Ship([]string{"FlowSchema"})
	f.Unship([]string{"FlowSchema"})
	schema, err := f.Client.FlowcontrolV1().FlowSchemas().Get(t.Context(), "evictd", metav1.GetOptions{})
	f.Must(err)
	level, err := f.Client.FlowcontrolV1().PriorityLevelConfigurations().Get(t.Context(), "workload-high", metav1.GetOptions{})
	f.Must(err)
	want := string(schema.UID) + " " + string(level.UID)
	last := "" // what the API server used for the last request
	watched := func(config *rest.Config) *rest.Config {
		return answered(config, func(r *http.Response) error {
			last = r.Header.Get("X-Kubernetes-PF-FlowSchema-UID") + " " + r.Header.Get("X-Kubernetes-PF-PriorityLevel-UID")
			return nil
		})
	}
	request := evict.Request{Namespace: f.Namespace, Name: "absent", UID: "x", DryRun: true}
	evictor := evictdtest.Evictor(t, watched(f.Here))
	f.Until("the API server follows the FlowSchema", func(ctx context.Context) bool {
		evictor.Evict(ctx, request)
		return last == want
	})
	_, err = f.As(watched(f.Here)).CoreV1().Nodes().Get(t.Context(), f.Near, metav1.GetOptions{})
	f.Must(err)
	if last == want {
		t.Error("reading a node is an eviction's flow")
	}
	// The administrator's requests carry no such header; another account's do.
	as := rest.CopyConfig(evictdtest.Unlimited())
	as.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:kube-system:drain", Groups: []string{"system:serviceaccounts", "system:authenticated"}}
	evictdtest.Evictor(t, watched(as)).Evict(t.Context(), request)
	if last == want {
		t.Error("another account's eviction is in evictd's flow")
	}
}

// The cost of the own-node policy for all accounts while its parameters, the pods, are not synced: a
// drain's evictions may be told to come again, and are never denied.
func TestEvictionsWhileThePolicysPodsAreNotSynced(t *testing.T) {
	f := evictdtest.NewAccount(t) // not parallel: the policies are the cluster's
	pod, theirs := evictdtest.RequestFor(f.PodOn(f.Near, "any")), evictdtest.RequestFor(f.PodOn(f.Far, "theirs"))
	pod.DryRun, theirs.DryRun = true, true
	drain := evictdtest.Evictor(t, evictdtest.Unlimited())
	expect(t, drain.Evict(t.Context(), pod), evict.WouldEvict)
	f.Ship(evictdtest.Policies())
	f.Unship(evictdtest.Policies())
	asked, later := 0, 0
	f.Until("the policy is in force", func(ctx context.Context) bool {
		asked++
		switch got := drain.Evict(ctx, pod); {
		case got.Outcome == evict.Denied:
			t.Errorf("an administrator's eviction: %+v", got)
		case got.Outcome == evict.Throttled && strings.Contains(got.Message, "not yet synced to use for admission"):
			later++
		}
		return strings.Contains(evictdtest.Evictor(t, f.Here).Evict(ctx, theirs).Message, "'evictd-evicts-on-own-node'")
	})
	t.Logf("%d of the administrator's %d evictions were told to come again", later, asked)
	f.Until("the administrator evicts", func(ctx context.Context) bool { return drain.Evict(ctx, pod).Outcome == evict.WouldEvict })
}
