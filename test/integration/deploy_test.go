package integration

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/evictd/evictd/pkg/evict"
)

// The quota counts the pods of the DaemonSet's priority class, as a quota admission that
// limits critical pods requires.
func TestQuotaCountsEvictdsPods(t *testing.T) {
	w := newWorld(t) // not parallel: the namespace is the cluster's
	w.ship(append(rights(), "ResourceQuota"))
	t.Cleanup(func() { w.unship([]string{"ResourceQuota"}) })
	for _, class := range []string{"system-node-critical", ""} {
		pod, err := w.client.CoreV1().Pods(account).Create(t.Context(), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "evictd-"},
			Spec: corev1.PodSpec{
				NodeName: w.node, ServiceAccountName: account, AutomountServiceAccountToken: new(false), PriorityClassName: class,
				Containers: []corev1.Container{{Name: "evictd", Image: "none"}},
			},
		}, metav1.CreateOptions{})
		w.must(err)
		t.Cleanup(func() {
			now := int64(0)
			_ = w.client.CoreV1().Pods(account).Delete(context.Background(), pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &now})
		})
	}
	w.until("the quota counts the critical pod alone", func(ctx context.Context) bool {
		quota, err := w.client.CoreV1().ResourceQuotas(account).Get(ctx, "evictd", metav1.GetOptions{})
		return err == nil && quota.Status.Used.Pods().Value() == 1
	})
}

// flowOf records the FlowSchema that the API server used for the last request.
type flowOf struct {
	next http.RoundTripper
	last string
}

func (f *flowOf) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := f.next.RoundTrip(r)
	if err == nil {
		f.last = answer.Header.Get("X-Kubernetes-PF-FlowSchema-UID") + " " + answer.Header.Get("X-Kubernetes-PF-PriorityLevel-UID")
	}
	return answer, err
}

// The evictions of evictd's account use the shipped FlowSchema, at the priority level of the
// controllers. Its other requests and other accounts' evictions do not.
func TestFlowSchemaTakesEvictdsEvictions(t *testing.T) {
	f := newFenced(t) // not parallel: the FlowSchema is the cluster's
	f.ship([]string{"FlowSchema"})
	t.Cleanup(func() { f.unship([]string{"FlowSchema"}) })
	schema, err := f.client.FlowcontrolV1().FlowSchemas().Get(t.Context(), "evictd", metav1.GetOptions{})
	f.must(err)
	level, err := f.client.FlowcontrolV1().PriorityLevelConfigurations().Get(t.Context(), "workload-high", metav1.GetOptions{})
	f.must(err)
	want := string(schema.UID) + " " + string(level.UID)
	var flow *flowOf
	watched := func(config *rest.Config) *rest.Config {
		config = rest.CopyConfig(config)
		config.Wrap(func(next http.RoundTripper) http.RoundTripper {
			flow = &flowOf{next: next}
			return flow
		})
		return config
	}
	request := evict.Request{Namespace: f.namespace, Name: "absent", UID: "x", DryRun: true}
	evictor := evictorFor(t, watched(f.here))
	f.until("the API server follows the FlowSchema", func(ctx context.Context) bool {
		evictor.Evict(ctx, request)
		return flow.last == want
	})
	_, err = f.as(watched(f.here)).CoreV1().Nodes().Get(t.Context(), f.near, metav1.GetOptions{})
	f.must(err)
	if flow.last == want {
		t.Error("reading a node is an eviction's flow")
	}
	// The administrator's requests carry no such header; another account's do.
	as := rest.CopyConfig(unlimited())
	as.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:kube-system:drain", Groups: []string{"system:serviceaccounts", "system:authenticated"}}
	evictorFor(t, watched(as)).Evict(t.Context(), request)
	if flow.last == want {
		t.Error("another account's eviction is in evictd's flow")
	}
}

// docs/security.md contains one line of kustomize that leaves out the policy on the
// evictions of all accounts.
func TestOneLineLeavesThePolicyOut(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/security.md")
	w := &world{t: t}
	w.must(err)
	line := ""
	for l := range strings.Lines(string(text)) {
		if strings.HasPrefix(l, "patches: [") {
			line = l
		}
	}
	deploy, err := filepath.Abs("../../deploy")
	w.must(err)
	dir := t.TempDir()
	base, err := filepath.Rel(dir, deploy)
	w.must(err)
	w.must(os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte("resources: ["+base+"]\n"+line), 0o600))
	built := identities(t, w.kubectl(t.Context(), "", "kustomize", dir))
	whole := identities(t, w.kubectl(t.Context(), "", "kustomize", deploy))
	left := map[string]bool{}
	for _, one := range built {
		left[one] = true
	}
	for _, one := range whole {
		if out := one == "ValidatingAdmissionPolicyBinding /evictd-evicts-on-own-node"; left[one] == out {
			t.Errorf("%s: left out %t, want %t", one, !left[one], out)
		}
	}
}

// The cost of the own-node policy for all accounts while its parameters, the pods, are not
// synced: a drain's evictions return 403, each after a second. The test logs how long that
// lasts.
func TestEvictionsWhileThePolicysPodsAreNotSynced(t *testing.T) {
	f := newFenced(t) // not parallel: the policies are the cluster's
	pod := requestFor(f.podOn(f.near, "any"))
	pod.DryRun = true
	drain := evictorFor(t, unlimited())
	expect(t, drain.Evict(t.Context(), pod), evict.WouldEvict)
	f.ship(policies())
	t.Cleanup(func() { f.unship(policies()) })
	start, asked, refusals, last := time.Now(), 0, 0, time.Duration(0)
	for time.Since(start) < 5*time.Second {
		asked++
		switch got := drain.Evict(t.Context(), pod); got.Outcome {
		case evict.WouldEvict:
			time.Sleep(10 * time.Millisecond)
		case evict.Throttled:
			refusals, last = refusals+1, time.Since(start)
			if !strings.Contains(got.Message, "not yet synced to use for admission") {
				t.Errorf("refused with %q", got.Message)
			}
		default:
			t.Fatalf("an administrator's eviction: %+v", got)
		}
	}
	t.Logf("%d of the administrator's %d evictions were refused, the last %v after the policies were applied", refusals, asked, last)
	theirs := requestFor(f.podOn(f.far, "theirs"))
	theirs.DryRun = true
	f.until("the policy is in force", func(ctx context.Context) bool {
		return strings.Contains(evictorFor(t, f.here).Evict(ctx, theirs).Message, "'evictd-evicts-on-own-node'")
	})
	expect(t, drain.Evict(t.Context(), pod), evict.WouldEvict)
}
