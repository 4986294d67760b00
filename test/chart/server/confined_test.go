package server

import (
	"context"
	"fmt"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/evictd/evictd/test/chart"
)

// moved is evictd in another namespace, or with another account.
type moved struct {
	name, namespace, account string
	objects                  func(t *testing.T) chart.Objects
}

// A moved namespace is still confined. Wherever evictd is installed, its policies confine the account
// that it runs with: with the same token, another node's pod may be evicted before the policies are
// there, and not afterwards.
func TestMovedReleaseIsConfined(t *testing.T) {
	s := newAPIServer(t) // not parallel: the policies are the cluster's
	for _, node := range []string{"near", "far"} {
		_, err := s.client.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		s.pod("default", "on-"+node, node, "default")
	}
	for _, m := range []moved{
		{"chart", "chart-moved", "evictd", func(t *testing.T) chart.Objects { t.Helper(); return chart.Render(t, "chart-moved", "").Objects }},
		{"chart, another account", "account-moved", "node-evictions", func(t *testing.T) chart.Objects {
			t.Helper()
			return chart.Render(t, "account-moved", "serviceAccount: {name: node-evictions}").Objects
		}},
		{"kustomize", "kustomize-moved", "evictd", func(t *testing.T) chart.Objects {
			t.Helper()
			return chart.Kustomize(t, "resources: [DEPLOY]\nnamespace: kustomize-moved\ntransformers: [DEPLOY/transformers/namespace]")
		}},
	} {
		t.Run(m.name, func(t *testing.T) {
			in := *s
			in.t = t
			in.isConfined(m)
		})
	}
}

func (s *apiServer) isConfined(m moved) {
	t := s.t
	t.Helper()
	s.namespace(m.namespace)
	all := m.objects(t)
	t.Cleanup(func() {
		for _, object := range all {
			s.remove(object)
		}
	})
	s.applyKinds(all, "ServiceAccount", "ClusterRole", "ClusterRoleBinding")
	evictd := s.as(m.namespace, m.account, s.pod(m.namespace, "evictd", "near", m.account))
	s.until("the rights are in force, and no policy is", func(ctx context.Context) error {
		return evict(ctx, evictd, "on-far")
	})
	s.applyKinds(all, "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
	s.until("the policy refuses another node's pod", func(ctx context.Context) error {
		const want = `evictd on node "near" may evict only pods of that node, and pod default/on-far is on node "far"`
		if err := evict(ctx, evictd, "on-far"); err == nil || !strings.Contains(err.Error(), want) {
			return fmt.Errorf("answered by %w, want %q", err, want)
		}
		return nil
	})
	s.until("evicting a pod of its own node is allowed", func(ctx context.Context) error {
		return evict(ctx, evictd, "on-near")
	})
}

// applyKinds applies the objects of these kinds.
func (s *apiServer) applyKinds(all chart.Objects, kinds ...string) {
	s.t.Helper()
	for key, object := range all {
		for _, kind := range kinds {
			if object["kind"] != kind {
				continue
			}
			if err := s.apply(object); err != nil {
				s.t.Fatalf("%s: %v", key, err)
			}
		}
	}
}

// pod creates a pod that is bound to a node.
func (s *apiServer) pod(in, name, node, account string) *corev1.Pod {
	s.t.Helper()
	pod, err := s.client.CoreV1().Pods(in).Create(s.t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PodSpec{
			NodeName: node, ServiceAccountName: account, AutomountServiceAccountToken: new(false),
			Containers: []corev1.Container{{Name: "c", Image: "none"}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	return pod
}

// as returns a client with the account's token of a pod, which names its node.
func (s *apiServer) as(in, account string, pod *corev1.Pod) kubernetes.Interface {
	s.t.Helper()
	token, err := s.client.CoreV1().ServiceAccounts(in).CreateToken(s.t.Context(), account, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{BoundObjectRef: &authenticationv1.BoundObjectReference{
			APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID,
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	config := rest.AnonymousClientConfig(s.config)
	config.QPS, config.BearerToken = -1, token.Status.Token
	return clientFor(s.t, config)
}

// evict asks for a pod's eviction, in a dry run: the policies are the same.
func evict(ctx context.Context, as kubernetes.Interface, name string) error {
	pod, err := as.CoreV1().Pods("default").Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	return as.PolicyV1().Evictions("default").Evict(ctx, &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Namespace: "default", Name: name},
		DeleteOptions: &metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}, Preconditions: &metav1.Preconditions{UID: &pod.UID}},
	})
}
