package api

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evictd/evictd/internal/acting"
	"github.com/evictd/evictd/test/internal/evictdtest"
)

// The response to an eviction is lost, and so is that of each read of the pod. The watch shows that the
// pod is terminating, and it is recorded like any other victim, on the node too.
func TestLostEvictionThatTheWatchTellsOfIsOnRecord(t *testing.T) {
	t.Parallel()
	a := evictdtest.NewAgent(t)
	a.Kubelet.Hold(true)
	a.Start()
	a.LoseAnswers()
	a.Press()
	a.Counted(1, "evictd_evictions_total", "outcome", "Evicted")
	a.Proxy.After(nil)
	a.Kubelet.Hold(false)
	a.Told("large", "EvictionRequested")
	a.Until("kubectl describe node tells of it", func(ctx context.Context) bool {
		return strings.Contains(a.Kubectl(ctx, "", "describe", "node", a.Node), "evictd evicts pod "+a.Namespace+"/large (")
	})
	a.Until("its end is on record", func(context.Context) bool { return a.Evictd.Log.Has("victim ended") })
	a.ExpectVictims("large")
}

// While the ConfigMap of the runbook is there, evictd says which pod it would evict and why it does not, and evicts
// none. It evicts that pod when the ConfigMap is deleted.
func TestStopAtOnce(t *testing.T) {
	t.Parallel()
	a := evictdtest.NewAgent(t)
	a.Start()
	maps := a.Client.CoreV1().ConfigMaps(a.Namespace)
	_, err := maps.Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: acting.StopName}, Data: map[string]string{acting.StopReason: "the wrong pods"},
	}, metav1.CreateOptions{})
	a.Must(err)
	a.Counted(1, "evictd_dry_run_reason", "reason", "Stopped")
	a.Press()
	a.Until("a decision names the pod and says why it stays", func(ctx context.Context) bool {
		_, page := a.Evictd.Get(ctx, "/debug/status")
		return strings.Contains(page, a.Namespace+"/large") && strings.Contains(page, "the wrong pods")
	})
	a.Ticks(5)
	if a.Terminating("large") || a.Terminating("small") {
		t.Error("a pod was evicted while evictd was stopped")
	}
	a.Must(maps.Delete(t.Context(), acting.StopName, metav1.DeleteOptions{}))
	a.ExpectVictims("large")
}

// The node becomes short of memory while no connection to the API server is accepted. Afterwards one pod is
// evicted. The other faults are in test/faults.
func TestFaultConnectionsRefused(t *testing.T) {
	t.Parallel()
	evictdtest.Fault{
		Begin: func(a *evictdtest.Agent) { a.Link.Refuse() },
		Met:   evictdtest.EvictionsFailed,
		End:   func(a *evictdtest.Agent) { a.Link.Listen() },
	}.Run(t)
}
