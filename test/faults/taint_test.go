package faults

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evictd/evictd/test/internal/evictdtest"
)

// The taint is set before the first eviction, or the decision says that it may be missing: evictd waits for a
// slow API server only so long. It outlasts the pressure's victim, and another client's taint stays.
func TestTaintComesBeforeTheFirstEviction(t *testing.T) {
	t.Parallel()
	a := evictdtest.NewAgent(t)
	const theirs = `{"spec":{"taints":[{"key":"example.org/theirs","effect":"PreferNoSchedule"}]}}`
	_, err := a.Client.CoreV1().Nodes().Patch(t.Context(), a.Node, types.MergePatchType, []byte(theirs), metav1.PatchOptions{})
	a.Must(err)
	var patched, early atomic.Bool
	a.Proxy.Instead(func(_ http.ResponseWriter, r *http.Request) bool {
		if evictdtest.IsEviction(r) && strings.Contains(r.URL.Path, "/large/") && !patched.Load() {
			early.Store(true)
		}
		return false
	})
	a.Proxy.After(func(r *http.Request) {
		if r.Method == http.MethodPatch && strings.HasSuffix(r.URL.Path, "/nodes/"+a.Node) {
			patched.Store(true)
		}
	})
	a.Kubelet.Hold(true)
	a.Start("taintNode: true", "evictionPressureTransitionPeriod: 1s")
	a.Ticks(5)
	if patched.Load() || a.Tainted(t.Context()) {
		t.Error("the node is tainted while it is calm")
	}
	a.Press()
	a.AnyVictim()
	if early.Load() {
		a.Decided("the node may not carry evictd.dev/memory-pressure")
	}
	a.Until("the node is tainted", a.Tainted)
	a.Kubelet.Hold(false)
	a.Until("the taint is removed", func(ctx context.Context) bool { return !a.Tainted(ctx) })
	a.ExpectVictims("large")
	node, err := a.Client.CoreV1().Nodes().Get(t.Context(), a.Node, metav1.GetOptions{})
	a.Must(err)
	if len(node.Spec.Taints) == 0 || node.Spec.Taints[0].Key != "example.org/theirs" {
		t.Errorf("another client's taint is gone: %v", node.Spec.Taints)
	}
}
