package api

import (
	"context"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"

	"github.com/evictd/evictd/internal/taint"
	"github.com/evictd/evictd/test/internal/eventually"
	"github.com/evictd/evictd/test/internal/evictdtest"
)

const (
	memoryTaint = "evictd.dev/memory-pressure"
	theirTaint  = "evictd.dev/theirs"
)

// keys returns the node's taints as key:effect.
func keys(ctx context.Context, w *evictdtest.World) []string {
	w.T.Helper()
	node, err := w.Client.CoreV1().Nodes().Get(ctx, w.Node, metav1.GetOptions{})
	w.Must(err)
	var keys []string
	for _, t := range node.Spec.Taints {
		keys = append(keys, t.Key+":"+string(t.Effect))
	}
	return keys
}

// tainted returns how many of evictd's own taints for memory the node carries.
func tainted(ctx context.Context, w *evictdtest.World) (effects int) {
	for _, key := range keys(ctx, w) {
		if key == memoryTaint+":NoSchedule" || key == memoryTaint+":PreferNoSchedule" {
			effects++
		}
	}
	return effects
}

// quiet records only the keeper's faults.
type quiet struct{ tb testing.TB }

func (quiet) Tainted([]string, []string, bool) {}
func (q quiet) Failed(_ string, err error)     { q.tb.Log(err) }

// keeper maintains a node's taints with those credentials.
func keeper(f *evictdtest.Account, as *rest.Config, node string) *taint.Keeper {
	f.T.Helper()
	return taint.New(f.As(as).CoreV1().Nodes(), node, quiet{f.T}, time.Now)
}

// The overlay's rights, confined by the shipped policy to the own node.
func TestTaintOverlay(t *testing.T) {
	f := evictdtest.NewAccount(t) // not parallel: account, role and policies are the cluster's
	bounded := eventually.Bounded(t)
	settled := func(k *taint.Keeper, w taint.Wanted) error {
		k.Want(w) //nolint:contextcheck // an attempt outlives the look at the node that wants it
		return k.Settled(bounded)
	}
	memory := taint.Wanted{Pressures: taint.Memory | taint.Memory.Preferring()}
	refused(t, "without the overlay", settled(keeper(f, f.Here, f.Near), memory), "cannot patch")
	e := doctor(f, f.Here, "taintNode: soft\n")
	e.says("missing", "patch nodes", "right/patch nodes")
	f.Confine()
	const overlay = "../../deploy/overlays/taint/taint.yaml"
	f.Kubectl(t.Context(), "", "apply", "-f", overlay)
	f.Undo(func(ctx context.Context) { f.Kubectl(ctx, "", "delete", "-f", overlay) })
	f.Must(retry.RetryOnConflict(retry.DefaultBackoff, func() error { // as another client does
		node, err := f.Client.CoreV1().Nodes().Get(t.Context(), f.Node, metav1.GetOptions{})
		f.Must(err)
		node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: theirTaint, Value: "theirs", Effect: corev1.TaintEffectPreferNoSchedule})
		_, err = f.Client.CoreV1().Nodes().Update(t.Context(), node, metav1.UpdateOptions{})
		return err
	}))
	own := keeper(f, f.Here, f.Near)
	f.Until("evictd may taint its own node", func(context.Context) bool { return settled(own, memory) == nil })
	if tainted(t.Context(), f.World) != 2 {
		t.Errorf("the taints: %v, want evictd's own with both effects", keys(t.Context(), f.World))
	}
	e.says("ok", "granted", "right/patch nodes")
	refused(t, "another node", settled(keeper(f, f.Here, f.Far), memory), "evictd-taints-own-node")
	k := keeper(f, f.Here, f.Near)
	node, err := f.Client.CoreV1().Nodes().Get(t.Context(), f.Near, metav1.GetOptions{})
	f.Must(err)
	k.Found(node)
	f.Must(settled(k, taint.Wanted{}))
	if got := keys(t.Context(), f.World); tainted(t.Context(), f.World) != 0 || !slices.Contains(got, theirTaint+":PreferNoSchedule") {
		t.Errorf("the taints at the end: %v, want evictd's own gone and the other there", got)
	}
}
