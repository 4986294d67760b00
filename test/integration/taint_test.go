package integration

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/evictd/evictd/internal/taint"
	"github.com/evictd/evictd/test/cluster"
)

const memoryTaint = "evictd.dev/memory-pressure"

// keys returns the node's taints as key:effect.
func (w *world) keys(ctx context.Context) []string {
	w.t.Helper()
	node, err := w.client.CoreV1().Nodes().Get(ctx, w.node, metav1.GetOptions{})
	w.must(err)
	var keys []string
	for _, t := range node.Spec.Taints {
		keys = append(keys, t.Key+":"+string(t.Effect))
	}
	return keys
}

// tainted reports whether the node carries evictd's own taint.
func (w *world) tainted(ctx context.Context) bool {
	return slices.Contains(w.keys(ctx), memoryTaint+":NoSchedule")
}

// retaint changes the node's taints as another client does: it retries after a conflict.
func (w *world) retaint(ctx context.Context, change func([]corev1.Taint) []corev1.Taint) error {
	for {
		node, err := w.client.CoreV1().Nodes().Get(ctx, w.node, metav1.GetOptions{})
		if err != nil {
			return err
		}
		node.Spec.Taints = change(node.Spec.Taints)
		if _, err = w.client.CoreV1().Nodes().Update(ctx, node, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
			return err
		}
	}
}

// quiet records only the keeper's faults.
type quiet struct{ tb testing.TB }

func (quiet) Tainted([]string, []string, bool) {}
func (q quiet) TaintError(err error)           { q.tb.Log(err) }

// keeper maintains a node's taints with those credentials until the context ends.
func (f *fenced) keeper(ctx context.Context, as *rest.Config, node string) (*taint.Keeper, <-chan struct{}) {
	f.t.Helper()
	k := taint.New(taint.Options{Nodes: f.as(as).CoreV1().Nodes(), Node: node, Recorder: quiet{f.t}})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = k.Run(ctx)
	}()
	return k, ended
}

// The overlay's rights, confined by the shipped policy to the own node.
func TestTaintOverlay(t *testing.T) {
	f := newFenced(t) // not parallel: account, role and policies are the cluster's
	settled := func(k *taint.Keeper, w taint.Wanted) error {
		ctx, cancel := context.WithTimeout(t.Context(), cluster.Patiently(10*time.Second))
		defer cancel()
		k.Want(w)
		return k.Settled(ctx)
	}
	memory := taint.Wanted{Pressures: taint.Memory}
	early, end := context.WithCancel(t.Context())
	k, ended := f.keeper(early, f.here, f.near)
	refused(t, "without the overlay", settled(k, memory), "cannot patch")
	end() // with the overlay it would taint the node at its next retry
	<-ended
	const lacks, may = "taintNode is true and the account lacks rights for it", "taintNode is true: the node is tainted"
	f.says("taintNode: true\n", lacks, may, "the right to patch nodes is missing; apply deploy/overlays/taint")
	f.confine()
	const overlay = "../../deploy/overlays/taint/taint.yaml"
	f.kubectl(t.Context(), "", "apply", "-f", overlay)
	t.Cleanup(func() { f.kubectl(context.Background(), "", "delete", "-f", overlay) })
	f.must(f.retaint(t.Context(), func(taints []corev1.Taint) []corev1.Taint {
		return append(taints, corev1.Taint{Key: memoryTaint, Value: "theirs", Effect: corev1.TaintEffectPreferNoSchedule})
	}))
	own, _ := f.keeper(t.Context(), f.here, f.near)
	f.until("evictd may taint its own node", func(context.Context) bool { return settled(own, memory) == nil })
	if !f.tainted(t.Context()) {
		t.Errorf("the taints: %v, want evictd's own", f.keys(t.Context()))
	}
	f.says("taintNode: true\n", may, lacks, "")
	theirs, _ := f.keeper(t.Context(), f.here, f.far)
	refused(t, "another node", settled(theirs, memory), "evictd-taints-own-node")
	k, _ = f.keeper(t.Context(), f.here, f.near)
	node, err := f.client.CoreV1().Nodes().Get(t.Context(), f.near, metav1.GetOptions{})
	f.must(err)
	k.Found(node)
	f.must(settled(k, taint.Wanted{}))
	if got := f.keys(t.Context()); f.tainted(t.Context()) || !slices.Contains(got, memoryTaint+":PreferNoSchedule") {
		t.Errorf("the taints at the end: %v, want evictd's own gone and the other of the same key there", got)
	}
}

// Each overlay can be combined with the base in a kustomization.
func TestOverlaysAddTheirRights(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	own := t.TempDir()
	deploy, err := filepath.Abs("../../deploy")
	w.must(err)
	relative, err := filepath.Rel(own, deploy)
	w.must(err)
	list := fmt.Sprintf("resources: [%[1]s, %[1]s/overlays/taint, %[1]s/overlays/permits]\n", relative)
	w.must(os.WriteFile(filepath.Join(own, "kustomization.yaml"), []byte(list), 0o600))
	all := w.kubectl(t.Context(), "", "kustomize", own)
	for _, one := range []string{"kind: DaemonSet", "name: evictd-taints-own-node", "name: evictd-taint\n", "name: evictd-permits\n"} {
		if !strings.Contains(all, one) {
			t.Errorf("%q is not in:\n%s", one, all)
		}
	}
}

// The rights of the permits overlay suffice, and apply in evictd's own namespace only.
func TestPermitsOverlay(t *testing.T) {
	f := newFenced(t) // not parallel: account and role are the cluster's
	const overlay = "../../deploy/overlays/permits/permits.yaml"
	const settings, lacks = "evictionPermits: {perWorkload: 1}\n", "evictionPermits is set and the account lacks rights for it"
	const may = "evictionPermits is set: a pod is evicted when a permit of its workload, and one of the cluster, is free"
	f.says(settings, lacks, may, "the right to get leases and to list leases and to create leases and to update leases and to delete leases is missing; apply deploy/overlays/permits")
	f.kubectl(t.Context(), "", "apply", "-f", overlay)
	t.Cleanup(func() { f.kubectl(context.Background(), "", "delete", "-f", overlay) })
	own := &permitWorld{world: f.again(t).world}
	own.client, own.namespace = f.as(f.here), account
	request := victim("one")
	n := own.node(t.Context(), f.near, 0, true)
	f.until("evictd may acquire a permit", func(ctx context.Context) bool { return n.Acquire(ctx, request).Verdict == "Granted" })
	own.outlast(n)
	f.until("evictd may give it back", func(ctx context.Context) bool {
		n.ReleaseEnded(never, never)
		return len(own.leases(ctx)) == 0
	})
	elsewhere := f.as(f.here).CoordinationV1().Leases(f.namespace)
	_, err := elsewhere.List(t.Context(), metav1.ListOptions{})
	refused(t, "Leases of another namespace", err, "cannot list")

	// The namespace of the started evictd is that of the test.
	text, err := os.ReadFile(overlay)
	f.must(err)
	f.kubectl(t.Context(), strings.ReplaceAll(string(text), "namespace: evictd\n  labels", "namespace: "+f.namespace+"\n  labels"), "apply", "-f", "-")
	f.until("the API server has read the role", func(ctx context.Context) bool {
		_, err := elsewhere.List(ctx, metav1.ListOptions{})
		return err == nil
	})
	f.says(settings, may, lacks, "")
}
