//go:build e2e || e2e_all

package e2e

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evictd/evictd/test/cluster"
	"github.com/evictd/evictd/test/internal/node"
)

// TestShippedManifestRunsInDryRun looks at evictd as it was deployed. What its account may do is in
// TestRightsAreThoseOfTheList of test/api. The other tests change the configuration, and tests run in the order
// of their files' names: this file is the first.
func TestShippedManifestRunsInDryRun(t *testing.T) {
	s := &scene{T: t}
	pods, err := live.Client.CoreV1().Pods(node.Namespace).List(t.Context(), metav1.ListOptions{})
	s.must(err)
	if len(pods.Items) != 1 || pods.Items[0].Status.ContainerStatuses[0].RestartCount != 0 {
		t.Fatalf("want one evictd that never restarted: %+v", pods.Items)
	}
	checkOOMScore(s, &pods.Items[0])
	families, err := live.Metrics(t.Context())
	s.must(err)
	if dry, there := families.Sum("evictd_dry_run"); !there || dry != 1 {
		t.Errorf("evictd_dry_run = %v, %v; the shipped configuration must be a dry run", dry, there)
	}
	for address, open := range map[string]bool{"127.0.0.1:9464": true, "127.0.0.2:9464": true, "127.0.0.1:9465": true, "127.0.0.2:9465": false} {
		connection, fault := (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
		if (fault == nil) != open {
			t.Errorf("%s: %v; want an answer: %v, as the document that names pods is for the node alone", address, fault, open)
		}
		if fault == nil {
			s.must(connection.Close())
		}
	}
	for _, page := range []string{"/livez", "/readyz"} {
		s.until(page+" is in order", func(ctx context.Context) bool {
			_, code, fault := live.Get(ctx, page)
			return fault == nil && code == http.StatusOK
		})
	}
}

// checkOOMScore checks that evictd has the OOM score of Guaranteed pods: its requests are not its limits, and
// the kubelet gives it that score for its priority class (pkg/kubelet/qos, GetContainerOOMScoreAdjust).
func checkOOMScore(s *scene, pod *corev1.Pod) {
	s.Helper()
	restricted, err := cluster.LacksSysResource()
	s.must(err)
	if restricted {
		s.Log("evictd's oom_score_adj is not checked: without CAP_SYS_RESOURCE the container runtime cannot set it")
		return
	}
	process, err := node.EvictdProcess(pod)
	s.must(err)
	score, err := os.ReadFile(fmt.Sprintf("/proc/%d/oom_score_adj", process))
	s.must(err)
	if string(score) != "-997\n" {
		s.Errorf("evictd's oom_score_adj is %q, want -997", score)
	}
}
