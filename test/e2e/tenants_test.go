//go:build e2e_all

package e2e

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evictd/evictd/test/internal/node"
)

// fenced is two tenants, whose pods differ by label; the first one's priorities count only
// inside its queue.
const fenced = `queues:
- {name: tenant-a, podSelector: {matchLabels: {app: tenant-a}}, properties: {priority.policy: fence}}
- {name: tenant-b, podSelector: {matchLabels: {app: tenant-b}}}`

// Tenant A gives its pods the highest priority and uses far more than their requests; tenant
// B is modest.
func TestTenantWithHighPriorities(t *testing.T) {
	for _, test := range []struct{ name, queues, goes, queue string }{
		{"without queues the modest one goes", "", "tenant-b", ""},
		{"behind a fence the greedy one goes", fenced, "tenant-a", "root.tenant-a"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newScene(t, false, test.queues)
			priorityClass(s, "highest", 1000000000)
			pods := map[string]*worker{
				"tenant-a": deployWorker(s, node.Workload{
					Name: "tenant-a", UsesMiB: 500, AsksMiB: 10,
					Change: func(spec *corev1.PodSpec) { spec.PriorityClassName = "highest" },
				}),
				"tenant-b": deployWorker(s, node.Workload{Name: "tenant-b", UsesMiB: 300, AsksMiB: 100}),
			}
			// Only the two together cause pressure.
			pods["tenant-a"].works()
			pods["tenant-b"].works()
			d := s.gone(&pods[test.goes].Pod)
			if d.Queue != test.queue || len(d.Attempts) != 1 {
				t.Errorf("the decision names queue %q, want %q: %+v", d.Queue, test.queue, d)
			}
		})
	}
}

// priorityClass makes a PriorityClass until the end of the test.
func priorityClass(s *scene, name string, value int32) {
	s.Helper()
	classes := live.Client.SchedulingV1().PriorityClasses()
	_, err := classes.Create(s.Context(), &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value}, metav1.CreateOptions{})
	s.must(err)
	s.Cleanup(func() {
		if err := classes.Delete(context.Background(), name, metav1.DeleteOptions{}); err != nil {
			s.Errorf("removing the PriorityClass: %v", err)
		}
	})
}
