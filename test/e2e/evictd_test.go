//go:build e2e_all

package e2e

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evictd/evictd/test/internal/node"
)

// podEvent returns the message of an Event about a pod; "" when there is none.
func podEvent(ctx context.Context, s *scene, pod *corev1.Pod, reason string) string {
	list, err := live.Client.CoreV1().Events(pod.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return ""
	}
	for i := range list.Items {
		if list.Items[i].Reason == reason && list.Items[i].InvolvedObject.UID == pod.UID {
			return list.Items[i].Message
		}
	}
	return ""
}

func TestPodWithinItsRequestStays(t *testing.T) {
	s := newScene(t, false, "")
	within := s.deploy(node.Workload{Name: "within", UsesMiB: 500, AsksMiB: 600})
	over := deployWorker(s, node.Workload{Name: "over", UsesMiB: 400, AsksMiB: 10})
	over.works()
	s.gone(&over.Pod)
	s.wantVictims(&over.Pod)
	s.stays(&within)
}

// After an eviction the Event of the pod that has gone says why, and the metrics, which name no pod, count it.
func TestAnEvictionIsInAnEventAndInTheMetrics(t *testing.T) {
	s := newScene(t, false, "")
	before, err := live.Metrics(t.Context())
	s.must(err)
	evicted := []string{"signal", node.PodMemory, "outcome", "Evicted", "dry_run", "false"}
	count, there := before.Sum("evictd_evictions_total", evicted...)
	if !there {
		t.Fatal("evictd_evictions_total does not have all its label values from the start")
	}
	greedy := deployWorker(s, node.Workload{Name: "greedy", UsesMiB: 1000, AsksMiB: 50})
	greedy.works()
	s.gone(&greedy.Pod)
	message := ""
	s.until("an Event gives the reason", func(ctx context.Context) bool {
		message = podEvent(ctx, s, &greedy.Pod, "EvictionRequested")
		return message != ""
	})
	for _, fragment := range []string{node.PodMemory, "priority 0", "50.0Mi"} {
		if !strings.Contains(message, fragment) {
			t.Errorf("the Event lacks %q: %s", fragment, message)
		}
	}
	after, err := live.Metrics(t.Context())
	s.must(err)
	if now, _ := after.Sum("evictd_evictions_total", evicted...); now < count+1 {
		t.Errorf("evictd_evictions_total = %v, was %v before an eviction", now, count)
	}
	if n, _ := after.Sum("evictd_reaction_seconds"); n < 1 {
		t.Errorf("evictd_reaction_seconds counts %v", n)
	}
	for name, family := range after {
		for _, m := range family.GetMetric() {
			for _, l := range m.GetLabel() {
				if strings.Contains(l.GetValue(), greedy.Name) || strings.Contains(l.GetValue(), s.namespace) {
					t.Errorf("%s has a pod in label %s", name, l)
				}
			}
		}
	}
}
