package api

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evictd/evictd/internal/acting"
	"github.com/evictd/evictd/test/internal/evictdtest"
)

// While the ConfigMap exists, evictd decides and records and evicts no pod. Without it, it evicts.
func TestStopAndResume(t *testing.T) {
	t.Parallel()
	a := evictdtest.NewAgent(t)
	sent := evictdtest.Record(a)
	a.Start()
	a.Acting("")
	maps := a.Client.CoreV1().ConfigMaps(a.Namespace)
	_, err := maps.Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: acting.StopName}, Data: map[string]string{acting.StopReason: "evicts the wrong pods"},
	}, metav1.CreateOptions{})
	a.Must(err)
	a.Acting("Stopped")
	a.Press()
	a.Decided("WouldEvict", a.Namespace+"/evictd-stop stops it: \\\"evicts the wrong pods\\\"")
	a.Ticks(5)
	if all := sent.Real(); len(all) != 0 || a.Terminating("large") || a.Terminating("small") {
		t.Errorf("a stopped evictd sent %+v", all)
	}
	a.Must(maps.Delete(t.Context(), acting.StopName, metav1.DeleteOptions{}))
	a.Acting("")
	a.ExpectVictims("large")
	if all := sent.Real(); len(all) != 1 {
		t.Errorf("after the stop evictd sent %+v, want one eviction", all)
	}
}

// The response to an eviction is lost, and so is that of each read of the pod. The watch shows that the
// pod is terminating, and it is recorded like any other victim.
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
	a.Until("its end is on record", func(context.Context) bool { return a.Evictd.Log.Has("victim ended") })
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
