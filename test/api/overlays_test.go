package api

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evictd/evictd/internal/taint"
	"github.com/evictd/evictd/test/internal/eventually"
	"github.com/evictd/evictd/test/internal/evictdtest"
)

// quiet records only the keeper's faults.
type quiet struct{ tb testing.TB }

func (quiet) Tainted([]string, []string, bool) {}
func (q quiet) Failed(_ string, err error)     { q.tb.Log(err) }

// The overlay's rights are enough to taint the own node, and to take the taints away that were found there. That the
// shipped policy confines them is in TestOwnNode.
func TestTaintOverlay(t *testing.T) {
	f := evictdtest.NewAccount(t) // not parallel: account and role are the cluster's
	bounded, cancel := eventually.Cleanup()
	defer cancel()
	keeper := func() *taint.Keeper { return taint.New(f.As(f.Here).CoreV1().Nodes(), f.Near, quiet{t}, time.Now) }
	settled := func(k *taint.Keeper, w taint.Wanted) error {
		k.Want(w) //nolint:contextcheck // an attempt outlives the look at the node that wants it
		return k.Settled(bounded)
	}
	own := func() []string {
		return slices.DeleteFunc(taints(f, t.Context()), func(text string) bool { return !strings.Contains(text, `"evictd.dev/memory-pressure"`) })
	}
	memory := taint.Wanted{Pressures: taint.Memory | taint.Memory.Preferring()}
	refused(t, "without the overlay", settled(keeper(), memory), "cannot patch")
	e := doctor(f, f.Here, "taintNode: soft\n")
	e.says("missing", "patch nodes", "right/patch nodes")
	const file = "../../deploy/overlays/taint/taint.yaml"
	f.Kubectl(t.Context(), "", "apply", "-f", file)
	f.Undo(func(ctx context.Context) { f.Kubectl(ctx, "", "delete", "-f", file) })
	f.Kubectl(t.Context(), "", "taint", "node", f.Near, "evictd.dev/theirs=theirs:PreferNoSchedule") // as another client does
	first := keeper()
	f.Until("evictd may taint its own node", func(context.Context) bool { return settled(first, memory) == nil })
	if len(own()) != 2 {
		t.Errorf("the taints: %v, want evictd's own with both effects", taints(f, t.Context()))
	}
	e.says("ok", "granted", "right/patch nodes")
	second := keeper()
	node, err := f.Client.CoreV1().Nodes().Get(t.Context(), f.Near, metav1.GetOptions{})
	f.Must(err)
	second.Found(node)
	f.Must(settled(second, taint.Wanted{}))
	if left := taints(f, t.Context()); len(own()) != 0 || !slices.Contains(left, `{"key":"evictd.dev/theirs","value":"theirs","effect":"PreferNoSchedule"}`) {
		t.Errorf("the taints at the end: %v, want evictd's own gone and the other there", left)
	}
}
