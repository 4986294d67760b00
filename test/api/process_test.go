package api

import (
	"context"
	"testing"

	"github.com/evictd/evictd/test/internal/evictdtest"
)

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
