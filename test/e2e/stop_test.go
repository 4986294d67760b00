//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evictd/evictd/internal/acting"
	"github.com/evictd/evictd/test/cluster"
	"github.com/evictd/evictd/test/internal/node"
)

// An incident is open when evictd is stopped by its ConfigMap: it names the pod that it would evict,
// and why it does not. When the ConfigMap is deleted, it evicts that pod, and nothing was restarted.
func TestStopAtOnce(t *testing.T) {
	const greedyMiB = 900
	on(t, oneDisk)
	s := emptyScene(t)
	greedy := s.taker(node.Workload{Name: "greedy", UsesMiB: greedyMiB, AsksMiB: 10, LimitMiB: greedyMiB + 100})
	line, err := live.LineBelow(t.Context(), node.PodMemory, headroom)
	s.must(err)
	s.must(live.Configure(t.Context(), node.Policy{
		Limits: "{evictionsPerMinute: 60, perOwnerPerHour: 60, softJitter: 0s}",
		Extra: fmt.Sprintf("evictionHard: {}\nevictionSoft: {%s: \"%d\"}\nevictionSoftGracePeriod: {%[1]s: 20s}\nevictionSoftGraceForecast: false\n",
			node.PodMemory, line),
	}))
	s.takes(greedy, "memory")
	s.until("the threshold is met", func(ctx context.Context) bool { // the incident may be that of a test before
		families, err := live.Metrics(ctx)
		available, known := node.Value(families, "evictd_signal_available_bytes", map[string]string{"signal": node.PodMemory})
		return err == nil && known && int64(available) < line
	})

	s.stopEvictd("the wrong pods")
	s.until("a decision names the pod and says why it stays", func(ctx context.Context) bool {
		d, named := s.decisionAbout(ctx, &greedy.Pod)
		return named && d.DryRun && strings.Contains(d.DryRunWhy, "the wrong pods")
	})
	s.stays(&greedy.Pod)

	s.must(live.Client.CoreV1().ConfigMaps(node.Namespace).Delete(t.Context(), acting.StopName, metav1.DeleteOptions{}))
	if d := s.gone(&greedy.Pod); d.DryRun || d.Verb != "Acted" {
		t.Errorf("the decision after the stop: %+v", d)
	}
	s.eventOnNode("EvictionsStopped")
	s.eventOnNode("EvictionsResumed")
}

// stopEvictd creates the ConfigMap as the runbook says, and waits until it is in force.
func (s *scene) stopEvictd(reason string) {
	s.Helper()
	const atMost = 5 * time.Second
	maps := live.Client.CoreV1().ConfigMaps(node.Namespace)
	sent := time.Now()
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
		stopped, _ := node.Value(families, "evictd_dry_run_reason", map[string]string{"reason": "Stopped"})
		return err == nil && stopped == 1
	})
	took := time.Since(sent)
	s.Logf("in force after %v", took)
	if took > cluster.Patiently(atMost) {
		s.Errorf("the stop was in force after %v, want at most %v", took, atMost)
	}
}

// eventOnNode waits for an Event of evictd on the node.
func (s *scene) eventOnNode(reason string) {
	s.Helper()
	s.until("the node has the Event "+reason, func(ctx context.Context) bool {
		events, err := live.Client.CoreV1().Events(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{
			FieldSelector: "reason=" + reason + ",involvedObject.name=" + live.Name(),
		})
		return err == nil && len(events.Items) > 0
	})
}
