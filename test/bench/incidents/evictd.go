package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/test/internal/measure"
	"github.com/evictd/evictd/test/internal/node"
)

// configure writes evictd's configuration: the shipped one, that is the defaults, without the
// dry run, and with the memory's thresholds in bytes: of the machine, and of the limit of all pods, which is the
// stand-in node's.
func (b *bench) configure(ctx context.Context, more string) error {
	return b.Node.Edit(ctx, fmt.Sprintf(`apiVersion: evictd.dev/v1alpha1
kind: EvictdConfiguration
dryRun: false
evictionHard: {memory.available: "%d", allocatableMemory.available: "%d", nodefs.available: 12%%, nodefs.inodesFree: 6%%, imagefs.available: 16%%, imagefs.inodesFree: 6%%}
evictionSoft: {memory.available: "%d", allocatableMemory.available: "%d"}
evictionSoftGracePeriod: {memory.available: 30s, allocatableMemory.available: 30s}
%s`, b.lines.Hard, b.lines.Hard-b.lines.End, b.lines.Soft, b.lines.Soft-b.lines.End, more))
}

// schedule lets the DaemonSet run on the node, or not, and waits until evictd is ready or gone.
func (b *bench) schedule(ctx context.Context, wanted bool) error {
	selector := `{"kubernetes.io/os":"linux","incidents":"none"}`
	if wanted {
		selector = `{"kubernetes.io/os":"linux","incidents":null}`
	}
	patch := []byte(`{"spec":{"template":{"spec":{"nodeSelector":` + selector + `}}}}`)
	_, err := b.daemonSets().Patch(ctx, "evictd", types.StrategicMergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("moving evictd: %w", err)
	}
	err = node.Until(ctx, 2*time.Minute, func(ctx context.Context) bool {
		if wanted {
			_, code, silent := b.Node.Get(ctx, "/readyz")
			return silent == nil && code == http.StatusOK && b.inForce(ctx)
		}
		pods, unread := b.Node.Client.CoreV1().Pods(node.Namespace).List(ctx, metav1.ListOptions{})
		return unread == nil && len(pods.Items) == 0
	})
	if err != nil {
		pods, _ := b.Node.Kubectl(context.WithoutCancel(ctx), "-n", node.Namespace, "describe", "pods") // beside the error
		return fmt.Errorf("waiting for evictd to be there (%v): %w\n%s", wanted, err, pods)
	}
	if wanted { // a start that knows nothing of the time before evicts no pod for so long
		return measure.Sleep(ctx, decide.CollectedWithin)
	}
	return nil
}

// edit gives a running evictd another configuration, which must differ from that in force, and waits until it acts by it.
func (b *bench) edit(ctx context.Context, more string) error {
	before, err := b.Node.Metrics(ctx)
	if err = errors.Join(err, b.Node.TellEvictd(kubeletsDefaults()), b.configure(ctx, more)); err != nil {
		return err
	}
	err = node.Until(ctx, 2*time.Minute, func(ctx context.Context) bool {
		now, unread := b.Node.Metrics(ctx)
		return unread == nil && node.Reloads(now) > node.Reloads(before) && b.inForce(ctx)
	})
	if err != nil {
		return fmt.Errorf("waiting for evictd to take the edit of its ConfigMap: %w", err)
	}
	return nil
}

// inForce reports whether evictd acts by the lines.
func (b *bench) inForce(ctx context.Context) bool {
	families, err := b.Node.Metrics(ctx)
	if err != nil {
		return false
	}
	line, there := families.Sum("evictd_threshold_line_bytes", "signal", node.NodeMemory, "kind", "Hard")
	dry, said := families.Sum("evictd_dry_run")
	return there && said && int64(line) == b.lines.Hard && dry == 0
}

// keepLog keeps evictd's log beside the result, to find out why.
func (b *bench) keepLog(ctx context.Context, name string) error {
	log, err := b.Node.Log(ctx)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(b.settings.results, 0o755); err != nil { //nolint:gosec // it is for reading
		return fmt.Errorf("making the folder of the results: %w", err)
	}
	path := filepath.Join(b.settings.results, name+".evictd.log")
	if err := os.WriteFile(path, []byte(log), 0o600); err != nil {
		return fmt.Errorf("keeping evictd's log: %w", err)
	}
	return nil
}
