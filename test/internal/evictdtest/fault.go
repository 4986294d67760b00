package evictdtest

import (
	"context"
	"testing"
)

// Fault is something that goes wrong between evictd and the API server.
type Fault struct {
	Begin func(*Agent)
	// Met is what must be seen before the fault ends.
	Met func(context.Context, *Agent) bool
	// End is nil where the fault does not end.
	End func(*Agent)
}

// EvictionsFailed reports whether an eviction request was not answered with success.
func EvictionsFailed(ctx context.Context, a *Agent) bool {
	metrics := a.Evictd.Metrics(ctx)
	sent, _ := metrics.Sum("evictd_evictions_total")
	evicted, _ := metrics.Sum("evictd_evictions_total", "outcome", "Evicted")
	return sent > evicted
}

// EvictedMeanwhile reports whether a pod was evicted.
func EvictedMeanwhile(_ context.Context, a *Agent) bool { return len(a.Kubelet.Victims()) > 0 }

// Run makes the node short of one pod's worth of memory during the fault. Meanwhile evictd goes on, and is
// ready. That pod is evicted, at the latest after the fault, and while it has not ended no other is.
func (f Fault) Run(t *testing.T) {
	t.Helper()
	a := NewAgent(t)
	a.Kubelet.Hold(true)
	a.Start()
	f.Begin(a)
	a.Press()
	a.Until("the fault has met evictd", func(ctx context.Context) bool { return f.Met(ctx, a) })
	a.Ticks(5)
	if status, text := a.Evictd.Get(t.Context(), "/livez"); status != 200 || !a.Ready(t.Context()) {
		t.Errorf("/livez is %d %q, and /readyz is 200: %t, although the pods are known and the node is read", status, text, a.Ready(t.Context()))
	}
	if f.End != nil {
		f.End(a)
	}
	a.AnyVictim()
	a.Ticks(5)
	a.Kubelet.Hold(false)
	a.ExpectVictims("large")
}
