//go:build e2e_all

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evictd/evictd/internal/acting"
	"github.com/evictd/evictd/test/internal/node"
)

// An incident is open when evictd is stopped by its ConfigMap: it names the pod that it would evict,
// and why it does not. When the ConfigMap is deleted, it evicts that pod, and nothing was restarted.
func TestStopAtOnce(t *testing.T) {
	const greedyMiB = 900
	on(t, oneDisk)
	s := emptyScene(t)
	greedy := deployWorker(s, node.Workload{Name: "greedy", UsesMiB: greedyMiB, AsksMiB: 10, LimitMiB: greedyMiB + 100})
	line, err := live.LineBelow(t.Context(), node.PodMemory, headroom)
	s.must(err)
	s.configure(node.Policy{
		Limits: "{evictionsPerMinute: 60, perOwnerPerHour: 60, softJitter: 0s}",
		Extra: fmt.Sprintf("evictionHard: {}\nevictionSoft: {%s: \"%d\"}\nevictionSoftGracePeriod: {%[1]s: 1h}\n",
			node.PodMemory, line),
	})
	greedy.works()
	s.until("the threshold is met", func(ctx context.Context) bool { // the incident may be that of a test before
		families, err := live.Metrics(ctx)
		available, known := families.Sum("evictd_signal_available_bytes", "signal", node.PodMemory)
		return err == nil && known && int64(available) < line
	})

	stopEvictd(s, "the wrong pods")
	s.patientThreshold(node.Policy{Stopped: true}) // the grace period is over at once
	s.until("a decision names the pod and says why it stays", func(ctx context.Context) bool {
		d, named := s.decisionAbout(ctx, &greedy.Pod)
		return named && d.DryRun && strings.Contains(d.DryRunWhy, "the wrong pods")
	})
	s.stays(&greedy.Pod)

	s.must(live.Client.CoreV1().ConfigMaps(node.Namespace).Delete(t.Context(), acting.StopName, metav1.DeleteOptions{}))
	if d := s.gone(&greedy.Pod); d.DryRun || d.Verb != "Acted" {
		t.Errorf("the decision after the stop: %+v", d)
	}
	eventOnNode(s, "EvictionsStopped")
	eventOnNode(s, "EvictionsResumed")
}

// stopEvictd creates the ConfigMap as the runbook says, and waits until it is in force.
func stopEvictd(s *scene, reason string) {
	s.Helper()
	maps := live.Client.CoreV1().ConfigMaps(node.Namespace)
	_, err := maps.Create(s.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: acting.StopName}, Data: map[string]string{acting.StopReason: reason},
	}, metav1.CreateOptions{})
	s.must(err)
	s.Cleanup(func() {
		if err := maps.Delete(context.Background(), acting.StopName, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			s.Error(err)
		}
	})
	s.until("evictd is stopped", func(ctx context.Context) bool {
		families, err := live.Metrics(ctx)
		stopped, _ := families.Sum("evictd_dry_run_reason", "reason", "Stopped")
		return err == nil && stopped == 1
	})
}

// eventOnNode waits for an Event of evictd on the node.
func eventOnNode(s *scene, reason string) {
	s.Helper()
	s.until("the node has the Event "+reason, func(ctx context.Context) bool {
		events, err := live.Client.CoreV1().Events(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{
			FieldSelector: "reason=" + reason + ",involvedObject.name=" + live.Name(),
		})
		return err == nil && len(events.Items) > 0
	})
}
