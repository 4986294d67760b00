package faults

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/evictd/evictd/test/internal/evictdtest"
)

// Guards invariant 9 with the real program: evictd is killed at a request that the proxy sees, and started
// again with its state. The node is short of one pod's worth of memory, and the victim does not end before the
// second process has decided several times. Exactly one pod is evicted, by either of the two. The steps between
// two requests are in internal/sim (restart_test.go), in virtual time.
func TestInvariant09KilledAtARequest(t *testing.T) {
	t.Parallel()
	evicts := func(r *http.Request) bool { return evictdtest.IsEviction(r) && strings.Contains(r.URL.Path, "/large/") }
	for name, step := range map[string]struct {
		settings string
		prepare  func(*evictdtest.Agent)
		request  func(*http.Request) bool
		lost     bool // the request does not reach the API server
	}{
		"before the eviction arrives": {request: evicts, lost: true},
		"after the eviction":          {request: evicts},
		"after the node has its taint": {
			settings: "taintNode: true\nevictionPressureTransitionPeriod: 1s",
			request: func(r *http.Request) bool {
				return r.Method == http.MethodPatch && strings.HasPrefix(r.URL.Path, "/api/v1/nodes/")
			},
		},
		"after a delete that bypasses a budget": {
			settings: "disruptionBudgets: bestEffort",
			prepare:  func(a *evictdtest.Agent) { a.Budget("large", "large"); a.Budget("small", "small") },
			request: func(r *http.Request) bool {
				return r.Method == http.MethodDelete && strings.HasSuffix(r.URL.Path, "/large")
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := evictdtest.NewAgent(t)
			a.StateDir = t.TempDir()
			if step.prepare != nil {
				step.prepare(a)
			}
			a.Kubelet.Hold(true)
			a.Start(step.settings)
			first := a.Evictd
			var killed atomic.Bool
			kill := func(r *http.Request) bool {
				if !step.request(r) {
					return false
				}
				first.Kill()
				killed.Store(true)
				return true
			}
			if step.lost {
				a.Proxy.Instead(func(_ http.ResponseWriter, r *http.Request) bool { return kill(r) })
			} else {
				a.Proxy.After(func(r *http.Request) { kill(r) })
			}
			a.Press()
			a.Until("evictd has come to the step", func(context.Context) bool { return killed.Load() })
			a.Proxy.Instead(nil)
			a.Proxy.After(nil)
			a.Start(step.settings)
			a.AnyVictim()
			a.Ticks(5)
			a.Kubelet.Hold(false)
			a.ExpectVictims("large")
			a.Until("nothing is left on the node", func(ctx context.Context) bool { return !a.Tainted(ctx) })
		})
	}
}
