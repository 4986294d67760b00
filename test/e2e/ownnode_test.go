//go:build e2e || e2e_all

package e2e

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/evictd/evictd/pkg/evict"
	"github.com/evictd/evictd/test/internal/node"
)

// What a stolen token of the running evictd permits. Without the policies of the shipped
// manifest the pod on the other node would be evicted.
func TestTokenOfTheRunningEvictdIsConfinedToItsNode(t *testing.T) {
	on(t, oneDisk)
	s := emptyScene(t)
	evictd, unbound := tokenOf(s, true), tokenOf(s, false)
	client, err := kubernetes.NewForConfig(evictd)
	s.must(err)
	mine := s.deploy(node.Workload{Name: "mine", UsesMiB: 1, AsksMiB: 1})
	theirs := s.elsewhere()
	// The policy uses the API server's cache, which receives the pod in a moment.
	s.until("the policy keeps evictd from the other node's pod", func(ctx context.Context) bool {
		return sendEviction(ctx, s, evictd, theirs, true).Outcome == evict.Denied
	})
	for _, dryRun := range []bool{true, false} {
		wantEviction(s, evictd, theirs, dryRun, evict.Denied, `evictd on node "`+live.Name()+`" may evict only pods of that node`, theirs.Spec.NodeName)
		wantEviction(s, unbound, &mine, dryRun, evict.Denied, "token that names its node")
	}
	s.stays(&mine)
	forbidden := func(what, reason string, err error) {
		t.Logf("%s: %v", what, err)
		if err == nil || !strings.Contains(err.Error(), reason) {
			t.Errorf("%s: %v, want it forbidden", what, err)
		}
	}
	forbidden("deleting a pod", "cannot delete", client.CoreV1().Pods(s.namespace).Delete(t.Context(), mine.Name, metav1.DeleteOptions{}))
	_, err = client.CoreV1().Nodes().Patch(t.Context(), live.Name(), types.MergePatchType, []byte(`{"spec":{"unschedulable":true}}`), metav1.PatchOptions{})
	forbidden("patching a node", "cannot patch", err)
	_, err = client.CoreV1().Secrets(s.namespace).List(t.Context(), metav1.ListOptions{})
	forbidden("reading secrets", "cannot list", err)
	wantEviction(s, evictd, &mine, true, evict.WouldEvict)
	wantEviction(s, evictd, &mine, false, evict.Evicted)
	still, err := live.Client.CoreV1().Pods(s.namespace).Get(t.Context(), theirs.Name, metav1.GetOptions{})
	s.must(err)
	if still.DeletionTimestamp != nil {
		t.Error("the other node's pod was evicted")
	}
}

// tokenOf returns a token of evictd's account: that of the running pod, or an unbound one.
func tokenOf(s *scene, bound bool) *rest.Config {
	s.Helper()
	pods, err := live.Client.CoreV1().Pods(node.Namespace).List(s.Context(), metav1.ListOptions{FieldSelector: "spec.nodeName=" + live.Name()})
	s.must(err)
	running := slices.IndexFunc(pods.Items, func(p corev1.Pod) bool { return p.DeletionTimestamp == nil })
	if running < 0 {
		s.Fatal("no evictd runs")
	}
	request := &authenticationv1.TokenRequest{}
	if bound {
		request.Spec.BoundObjectRef = &authenticationv1.BoundObjectReference{
			APIVersion: "v1", Kind: "Pod", Name: pods.Items[running].Name, UID: pods.Items[running].UID,
		}
	}
	answer, err := live.Client.CoreV1().ServiceAccounts(node.Namespace).CreateToken(s.Context(), "evictd", request, metav1.CreateOptions{})
	s.must(err)
	config := rest.AnonymousClientConfig(live.Cluster.RESTConfig())
	config.BearerToken = answer.Status.Token
	return config
}

// sendEviction sends evictd's own request with those credentials.
func sendEviction(ctx context.Context, s *scene, as *rest.Config, pod *corev1.Pod, dryRun bool) evict.Result {
	s.Helper()
	client, err := kubernetes.NewForConfig(as)
	s.must(err)
	return evict.New(client.CoreV1().RESTClient(), time.Now).Evict(ctx, evict.Request{
		Namespace: pod.Namespace, Name: pod.Name, UID: string(pod.UID), DryRun: dryRun,
	})
}

// wantEviction fails the test unless an eviction has that result, with these words.
func wantEviction(s *scene, as *rest.Config, pod *corev1.Pod, dryRun bool, want evict.Outcome, fragments ...string) {
	s.Helper()
	var got evict.Result
	s.until("the API server answers", func(ctx context.Context) bool {
		got = sendEviction(ctx, s, as, pod, dryRun)
		return got.Outcome != evict.Unconfirmed && got.Outcome != evict.Throttled
	})
	s.Logf("evicting %s, dry run %v: %s: %s", pod.Name, dryRun, got.Outcome, got.Message)
	if got.Outcome != want {
		s.Fatalf("evicting %s, dry run %v: %s: %s, want %s", pod.Name, dryRun, got.Outcome, got.Message, want)
	}
	for _, fragment := range fragments {
		if !strings.Contains(got.Message, fragment) {
			s.Errorf("message %q lacks %q", got.Message, fragment)
		}
	}
}
