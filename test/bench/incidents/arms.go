package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evictd/evictd/test/cluster"
	"github.com/evictd/evictd/test/internal/memory"
	"github.com/evictd/evictd/test/internal/node"
)

// The arms.
const (
	kubeletArm = "kubelet" // the kubelet alone
	evictdArm  = "evictd"  // the kubelet and evictd
)

const (
	namespace = "incidents"
	// topClass is a PriorityClass with the highest priority that is not the system's.
	topClass = "top"
	topValue = 1_000_000_000
	// kubeletFile is where kubeadm writes the kubelet's configuration, and evictd finds it.
	kubeletFile = "/var/lib/kubelet/config.yaml"
	// podPIDs is the kubelet's podPidsLimit: forks stay below it.
	podPIDs = 512
)

// bench is one run of the command.
type bench struct {
	settings settings
	started  time.Time
	dir      string
	address  string // of the replicated service
	node     *node.Node
	room     room
	disk     disk
	lines    lines
	machine  machine
}

func (b *bench) up(ctx context.Context, files node.Files) error {
	var err error
	if b.room.readings, err = memory.Open(); err != nil {
		return err
	}
	if err = b.refuse(); err != nil {
		return err
	}
	if b.dir, err = os.MkdirTemp("", "evictd-incidents-"); err != nil {
		return fmt.Errorf("making a folder: %w", err)
	}
	if err = os.Chmod(b.dir, 0o755); err != nil { //nolint:gosec // containers look into it
		return fmt.Errorf("opening a folder to containers: %w", err)
	}
	if b.address, err = freeAddress(ctx); err != nil {
		return err
	}
	b.node, err = node.Start(ctx, files, os.Stdout, func(o *cluster.Options) {
		disk := nodesDisk()
		o.Disk = &disk
		o.EvictionHard = kubeletsDefaults()
		o.Kubelet["podPidsLimit"] = podPIDs
		maps.Copy(o.Kubelet, imageCollection())
	})
	if err != nil {
		return err
	}
	if err := b.room.findGroup(); err != nil {
		return err
	}
	if err := b.prepare(ctx); err != nil {
		return err
	}
	if err := b.disk.find(b.node); err != nil {
		return err
	}
	return b.draw()
}

// refuse says what the machine lacks.
func (b *bench) refuse() error {
	kernel, err := b.room.readings.Kernel()
	if err != nil {
		return err
	}
	if kernel < needed {
		return fmt.Errorf("%d MiB are available, %d are needed: %d for the node that the machine stands in for, %d that stay available whatever happens, and %d for the rest of the machine",
			kernel>>20, int64(needed)>>20, int64(standIn)>>20, int64(floor+2*gibibyte)>>20, int64(spare)>>20)
	}
	if slices.ContainsFunc(catalogue(), func(s Scenario) bool { return s.onDisk() && b.settings.wants(&s) }) {
		return enoughDisk(os.TempDir())
	}
	return nil
}

// imageCollection is the kubelet's collection of unused images by default, which the test cluster
// switches off otherwise.
func imageCollection() map[string]any {
	return map[string]any{"imageGCHighThresholdPercent": 85, "imageGCLowThresholdPercent": 80, "imageMinimumGCAge": "2m"}
}

// prepare makes what all runs share.
func (b *bench) prepare(ctx context.Context) error {
	if _, err := b.node.Kubectl(ctx, "create", "namespace", namespace); err != nil {
		return err
	}
	_, err := b.node.Client.SchedulingV1().PriorityClasses().Create(ctx, &schedulingv1.PriorityClass{
		ObjectMeta: metav1.ObjectMeta{Name: topClass}, Value: topValue,
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("making a priority class: %w", err)
	}
	return b.node.Deploy(ctx)
}

// kubeletsDefaults are the kubelet's hard thresholds by default (pkg/kubelet/eviction/defaults_linux.go).
func kubeletsDefaults() map[string]string {
	return map[string]string{
		"memory.available": "100Mi", "nodefs.available": "10%", "nodefs.inodesFree": "5%", "imagefs.available": "15%", "imagefs.inodesFree": "5%",
	}
}

// draw draws the lines.
func (b *bench) draw() error {
	kernel, err := b.room.readings.Kernel()
	if err != nil {
		return err
	}
	b.lines = linesAt(kernel)
	b.say("The node has %d MiB, and ends where %d MiB are available. Lines above its end: evictd's %d and %d MiB, the kubelet's %d MiB.",
		int64(standIn)>>20, b.lines.End>>20, (b.lines.Soft-b.lines.End)>>20, (b.lines.Hard-b.lines.End)>>20, b.lines.Kubelet>>20)
	return nil
}

// tellEvictd writes the file by which evictd knows where the kubelet evicts: 100Mi above the
// stand-in node's end. Evictd takes the figure for the machine's memory.available by the
// kubelet's definition, and adds the gap between this and MemAvailable itself.
func (b *bench) tellEvictd() error {
	var err error
	if b.lines.Gap, err = b.room.gap(); err != nil {
		return err
	}
	thresholds := kubeletsDefaults()
	thresholds["memory.available"] = strconv.FormatInt(b.lines.End+b.lines.Kubelet-b.lines.Gap, 10)
	path, err := b.node.Cluster.InNode(kubeletFile)
	if err != nil {
		return err
	}
	var text strings.Builder
	text.WriteString("apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nevictionHard:\n")
	for name, value := range thresholds {
		fmt.Fprintf(&text, "  %s: %q\n", name, value)
	}
	if err := os.WriteFile(path, []byte(text.String()), 0o644); err != nil { //nolint:gosec // evictd reads it
		return fmt.Errorf("writing the kubelet's file: %w", err)
	}
	return nil
}

// arm puts evictd on the node, a new one, or takes it off.
func (b *bench) arm(ctx context.Context, arm, more string) error {
	if err := b.relieve(ctx); err != nil {
		return err
	}
	if err := b.schedule(ctx, false); err != nil || arm == kubeletArm {
		return err
	}
	// The kubelet alone removes evictd's image with the other unused ones when its disk is short.
	if err := errors.Join(b.node.Cluster.ImportImage(ctx, b.node.Files.Image), b.tellEvictd(), b.configure(ctx, more)); err != nil {
		return err
	}
	return b.schedule(ctx, true)
}

// relieve ends what an earlier run has left: the kubelet reports a pressure for five minutes more,
// and no pod is scheduled on its node meanwhile. A new kubelet does not know of it.
func (b *bench) relieve(ctx context.Context) error {
	tainted := func(ctx context.Context) bool {
		current, err := b.node.Client.CoreV1().Nodes().Get(ctx, b.node.Name(), metav1.GetOptions{})
		if err != nil || len(current.Spec.Taints) > 0 {
			return true
		}
		return slices.ContainsFunc(current.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type != corev1.NodeReady && c.Status == corev1.ConditionTrue
		})
	}
	if !tainted(ctx) {
		return nil
	}
	if err := b.restartKubelet(ctx); err != nil {
		return err
	}
	err := node.Until(ctx, 2*time.Minute, func(ctx context.Context) bool { return !tainted(ctx) })
	if err != nil {
		return fmt.Errorf("waiting until the node is without pressure: %w", err)
	}
	return nil
}

func (b *bench) restartKubelet(ctx context.Context) error {
	if err := b.node.Cluster.StopProcess(ctx, "kubelet"); err != nil {
		return err
	}
	return b.node.Cluster.StartProcess(ctx, "kubelet")
}

// configure writes evictd's configuration: the shipped one, that is the defaults, without the
// dry run, and with the memory's thresholds in bytes.
func (b *bench) configure(ctx context.Context, more string) error {
	files := b.node.Client.CoreV1().ConfigMaps(node.Namespace)
	current, err := files.Get(ctx, "evictd", metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("reading evictd's ConfigMap: %w", err)
	}
	current.Data["evictd.yaml"] = fmt.Sprintf(`apiVersion: evictd.dev/v1alpha1
kind: EvictdConfiguration
dryRun: false
evictionHard: {memory.available: "%d", nodefs.available: 12%%, nodefs.inodesFree: 6%%, imagefs.available: 16%%, imagefs.inodesFree: 6%%}
evictionSoft: {memory.available: "%d"}
evictionSoftGracePeriod: {memory.available: 30s}
evictionMinimumReclaim: {memory.available: "%d"}
%s`, b.lines.Hard, b.lines.Soft, b.lines.Reclaim, more)
	if _, err := files.Update(ctx, current, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("editing evictd's ConfigMap: %w", err)
	}
	return nil
}

// schedule lets the DaemonSet run on the node, or not, and waits until evictd is ready or gone.
func (b *bench) schedule(ctx context.Context, wanted bool) error {
	selector := `{"kubernetes.io/os":"linux","incidents":"none"}`
	if wanted {
		selector = `{"kubernetes.io/os":"linux","incidents":null}`
	}
	patch := []byte(`{"spec":{"template":{"spec":{"nodeSelector":` + selector + `}}}}`)
	_, err := b.node.Client.AppsV1().DaemonSets(node.Namespace).Patch(ctx, "evictd", types.StrategicMergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("moving evictd: %w", err)
	}
	err = node.Until(ctx, 2*time.Minute, func(ctx context.Context) bool {
		if wanted {
			_, code, silent := b.node.Get(ctx, "/readyz")
			return silent == nil && code == http.StatusOK && b.inForce(ctx)
		}
		pods, unread := b.node.Client.CoreV1().Pods(node.Namespace).List(ctx, metav1.ListOptions{})
		return unread == nil && len(pods.Items) == 0
	})
	if err != nil {
		pods, _ := b.node.Kubectl(context.WithoutCancel(ctx), "-n", node.Namespace, "describe", "pods") // beside the error
		return fmt.Errorf("waiting for evictd to be there (%v): %w\n%s", wanted, err, pods)
	}
	return nil
}

// inForce reports whether evictd acts by the lines.
func (b *bench) inForce(ctx context.Context) bool {
	families, err := b.node.Metrics(ctx)
	if err != nil {
		return false
	}
	line, there := node.Value(families, "evictd_threshold_line_bytes", map[string]string{"signal": node.NodeMemory, "kind": "Hard"})
	dry, said := node.Value(families, "evictd_dry_run", nil)
	return there && said && int64(line) == b.lines.Hard && dry == 0
}

func (b *bench) down(ctx context.Context) error {
	var err error
	if b.node != nil {
		err = b.node.Stop(ctx)
	}
	return errors.Join(err, b.room.ballast.Set(0), os.RemoveAll(b.dir))
}

// clear removes what a run has made, and waits until its pods are gone.
func (b *bench) clear(ctx context.Context) error {
	for _, kinds := range []string{"deployments,poddisruptionbudgets", "pods"} {
		if _, err := b.node.Kubectl(ctx, "-n", namespace, "delete", kinds, "--all", "--wait=false", "--grace-period=1"); err != nil {
			return err
		}
	}
	var left []corev1.Pod
	err := node.Until(ctx, 90*time.Second, func(ctx context.Context) bool {
		pods, unread := b.node.Client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
		if unread != nil {
			return false
		}
		left = pods.Items
		return len(left) == 0
	})
	if err != nil {
		return fmt.Errorf("waiting for %d pods of the run to go: %w", len(left), err)
	}
	return nil
}

// keepLog keeps evictd's log beside the result, to find out why.
func (b *bench) keepLog(ctx context.Context, name string) error {
	log, err := b.node.Log(ctx)
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
