//go:build e2e || e2e_all

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/evictd/evictd/pkg/evict"
	"github.com/evictd/evictd/test/internal/evictdtest"
	"github.com/evictd/evictd/test/internal/node"
)

// What a stolen token of the running evictd permits. Without the policies of the shipped
// manifest the pod on the other node would be evicted. What else the account may not do is in test/api.
func TestTokenOfTheRunningEvictdIsConfinedToItsNode(t *testing.T) {
	on(t, oneDisk)
	s := emptyScene(t)
	evictor := runningEvictor(s)
	mine := s.deploy(node.Workload{Name: "mine", UsesMiB: 1, AsksMiB: 1})
	theirs := s.elsewhere()
	evicts := func(pod *corev1.Pod, dryRun bool, want evict.Outcome) evict.Result {
		t.Helper()
		request := evictdtest.RequestFor(pod)
		request.DryRun = dryRun
		var got evict.Result
		s.until(fmt.Sprintf("evicting %s, dry run %v, is %s", pod.Name, dryRun, want), func(ctx context.Context) bool {
			got = evictor.Evict(ctx, request)
			return got.Outcome == want
		})
		t.Logf("evicting %s, dry run %v: %s: %s", pod.Name, dryRun, got.Outcome, got.Message)
		return got
	}
	// As a dry run first: the policy uses the API server's cache, which receives the pod in a moment.
	for _, dryRun := range []bool{true, false} {
		got := evicts(theirs, dryRun, evict.Denied)
		if text := `evictd on node "` + live.Name() + `" may evict only pods of that node`; !strings.Contains(got.Message, text) {
			t.Errorf("message %q lacks %q", got.Message, text)
		}
	}
	s.stays(&mine)
	evicts(&mine, true, evict.WouldEvict)
	evicts(&mine, false, evict.Evicted)
	still, err := live.Client.CoreV1().Pods(s.namespace).Get(t.Context(), theirs.Name, metav1.GetOptions{})
	s.must(err)
	if still.DeletionTimestamp != nil {
		t.Error("the other node's pod was evicted")
	}
}

// runningEvictor sends evictd's own requests, with a token that is bound to evictd's pod.
func runningEvictor(s *scene) *evict.Evictor {
	s.Helper()
	pod, err := live.EvictdPod(s.Context())
	s.must(err)
	config := rest.AnonymousClientConfig(live.Cluster.RESTConfig())
	config.BearerToken, err = evictdtest.Token(s.Context(), live.Cluster, pod)
	s.must(err)
	return evictdtest.Evictor(s, config)
}
