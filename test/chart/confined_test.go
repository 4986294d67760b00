package chart

import (
	"context"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// moved is evictd in another namespace, or with another account.
type moved struct {
	name, namespace, account string
	objects                  func(t *testing.T) objects
}

// A moved namespace is still confined. Wherever evictd is installed, its policies confine the account
// that it runs with: with the same token, another node's pod may be evicted before the policies are
// there, and not afterwards; and evictd finds that by itself. Kustomize's namespace: alone changes the
// account and not the policies' text, and evictd warns.
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
		{"chart", "chart-moved", "evictd", func(t *testing.T) objects { t.Helper(); return render(t, "chart-moved", "").objects }},
		{"chart, another account", "account-moved", "node-evictions", func(t *testing.T) objects {
			t.Helper()
			return render(t, "account-moved", "serviceAccount: {name: node-evictions}").objects
		}},
		{"kustomize", "kustomize-moved", "evictd", func(t *testing.T) objects {
			t.Helper()
			return kustomize(t, "resources: [DEPLOY]\nnamespace: kustomize-moved\ntransformers: [DEPLOY/transformers/namespace]")
		}},
	} {
		t.Run(m.name, func(t *testing.T) {
			in := *s
			in.t = t
			in.isConfined(m)
		})
	}
	t.Run("kustomize without the transformer", func(t *testing.T) {
		in := *s
		in.t = t
		in.isNotConfined(moved{"", "account-alone-moved", "evictd", func(t *testing.T) objects {
			t.Helper()
			return kustomize(t, "resources: [DEPLOY]\nnamespace: account-alone-moved")
		}})
	})
}

func (s *apiServer) isConfined(m moved) {
	t := s.t
	t.Helper()
	all, token := s.installed(m)
	evictd := clientFor(t, token)
	s.applyKinds(all, "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
	var refused string
	s.until("the policy refuses another node's pod", func(ctx context.Context) bool {
		err := evict(ctx, t, evictd, "on-far")
		if err != nil {
			refused = err.Error()
		}
		return err != nil
	})
	t.Log(refused)
	if want := `evictd on node "near" may evict only pods of that node, and pod default/on-far is on node "far"`; !strings.Contains(refused, want) {
		t.Errorf("refused by %q, want %q", refused, want)
	}
	if err := evict(t.Context(), t, evictd, "on-near"); err != nil {
		t.Errorf("evicting a pod of its own node: %v", err)
	}
	s.finds(m, token, "1")
}

func (s *apiServer) isNotConfined(m moved) {
	s.t.Helper()
	all, token := s.installed(m)
	s.applyKinds(all, "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
	log := s.finds(m, token, "0")
	const warning = `"msg":"evictd is not confined to its node"`
	if strings.Count(log, warning) != 1 || !strings.Contains(log, "evictd's token can evict the pods of every node") {
		s.t.Errorf("no warning, or more than one:\n%s", log)
	}
}

// installed installs evictd without its policies, and returns all objects and the token of its pod
// on the near node.
func (s *apiServer) installed(m moved) (all objects, token *rest.Config) {
	t := s.t
	t.Helper()
	s.namespace(m.namespace)
	all = m.objects(t)
	t.Cleanup(func() {
		for _, object := range all {
			s.remove(object)
		}
	})
	s.applyKinds(all, "ServiceAccount", "ClusterRole", "ClusterRoleBinding")
	token = s.as(m.namespace, m.account, s.pod(m.namespace, "evictd", "near", m.account))
	evictd := clientFor(t, token)
	s.until("the rights are in force, and no policy is", func(ctx context.Context) bool {
		return evict(ctx, t, evictd, "on-far") == nil
	})
	return all, token
}

// finds fails the test unless a running evictd finds that it is confined, "1", or not, "0". It returns
// evictd's log.
func (s *apiServer) finds(m moved, token *rest.Config, want string) string {
	s.t.Helper()
	evictd := run(s.t, token, "near", m.namespace)
	var got string
	s.until("evictd knows whether it is confined", func(ctx context.Context) (known bool) {
		got, known = evictd.confined(ctx)
		return known
	})
	if got != want {
		s.t.Errorf("evictd_confined is %s, want %s", got, want)
	}
	return evictd.said()
}

// applyKinds applies the objects of these kinds.
func (s *apiServer) applyKinds(all objects, kinds ...string) {
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

// as returns the account's token of a pod, which names its node.
func (s *apiServer) as(in, account string, pod *corev1.Pod) *rest.Config {
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
	return config
}

// evict asks for a pod's eviction, in a dry run: the policies are the same.
func evict(ctx context.Context, t *testing.T, as kubernetes.Interface, name string) error {
	t.Helper()
	pod, err := as.CoreV1().Pods("default").Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	return as.PolicyV1().Evictions("default").Evict(ctx, &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Namespace: "default", Name: name},
		DeleteOptions: &metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}, Preconditions: &metav1.Preconditions{UID: &pod.UID}},
	})
}
