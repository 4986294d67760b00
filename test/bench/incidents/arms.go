package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typedappsv1 "k8s.io/client-go/kubernetes/typed/apps/v1"

	"github.com/evictd/evictd/test/cluster"
	"github.com/evictd/evictd/test/internal/memory"
	"github.com/evictd/evictd/test/internal/node"
	"github.com/evictd/evictd/test/internal/rig"
)

// The arms.
const (
	kubeletArm = "kubelet"     // the kubelet alone
	evictdArm  = "evictd"      // the kubelet and evictd, as it is shipped
	byNodeArm  = "evictd-node" // the same with the component disk-node, and `disk: {source: node}`
)

// allArms returns every arm, in the order in which they alternate.
func allArms() []string { return []string{kubeletArm, evictdArm, byNodeArm} }

// arms are those that the scenario has: where a disk is measured makes no difference for the others.
func (s *Scenario) arms() []string {
	if s.onDisk() {
		return allArms()
	}
	return []string{kubeletArm, evictdArm}
}

const (
	namespace = "incidents"
	// topClass is a PriorityClass with the highest priority that is not the system's.
	topClass = "top"
	topValue = 1_000_000_000
	// podPIDs is the kubelet's podPidsLimit: forks stay below it.
	podPIDs = 512
)

// bench is one run of the command.
type bench struct {
	rig.Rig

	settings settings
	address  string // of the replicated service
	room     room
	disk     disk
	lines    lines
	machine  machine
	shipped  corev1.PodTemplateSpec // of evictd, as the manifest has it
	lives    bool                   // evictd is on the node and stays there from run to run
}

func (b *bench) up(ctx context.Context) error {
	if err := errors.Join(b.Open("incidents"), b.refuse()); err != nil {
		return err
	}
	b.room.ballast = &b.Ballast
	var err error
	if b.address, err = cluster.FreeAddress(ctx); err != nil {
		return err
	}
	err = b.Start(ctx, namespace, topClass, topValue, func(o *cluster.Options) {
		disk := nodesDisk()
		o.Disk = &disk
		o.Kubelet["evictionHard"], o.Kubelet["podPidsLimit"] = kubeletsDefaults(), podPIDs
		maps.Copy(o.Kubelet, imageCollection())
		if b.settings.soak > 0 {
			// The kubelet's figures of volumes follow a pod in seconds, so that no round waits for them. Evictd's
			// log is read from its process's start.
			maps.Copy(o.Kubelet, map[string]any{"volumeStatsAggPeriod": "10s", "containerLogMaxSize": "1Gi"})
		}
	})
	if err != nil {
		return err
	}
	if err := b.room.findGroup(); err != nil {
		return err
	}
	if err := b.ship(ctx); err != nil {
		return err
	}
	if err := b.disk.find(b.Node); err != nil {
		return err
	}
	if err := b.draw(); err != nil {
		return err
	}
	return b.identify(ctx)
}

// refuse says what the machine lacks.
func (b *bench) refuse() error {
	kernel, err := memory.Kernel()
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

// ship puts evictd on the node, as it is shipped.
func (b *bench) ship(ctx context.Context) error {
	if err := b.Node.Deploy(ctx); err != nil {
		return err
	}
	deployed, err := b.daemonSets().Get(ctx, "evictd", metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("reading evictd's DaemonSet: %w", err)
	}
	b.shipped = deployed.Spec.Template
	return nil
}

func (b *bench) daemonSets() typedappsv1.DaemonSetInterface {
	return b.Node.Client.AppsV1().DaemonSets(node.Namespace)
}

// kubeletsDefaults are the kubelet's hard thresholds by default (pkg/kubelet/eviction/defaults_linux.go).
func kubeletsDefaults() map[string]string {
	return map[string]string{
		"memory.available": "100Mi", "nodefs.available": "10%", "nodefs.inodesFree": "5%", "imagefs.available": "15%", "imagefs.inodesFree": "5%",
	}
}

// draw draws the lines.
func (b *bench) draw() error {
	kernel, err := memory.Kernel()
	if err != nil {
		return err
	}
	b.lines = linesAt(kernel)
	b.Say("The node has %d MiB, and ends where %d MiB are available. Lines above its end: evictd's %d and %d MiB, the kubelet's %d MiB.",
		int64(standIn)>>20, b.lines.End>>20, (b.lines.Soft-b.lines.End)>>20, (b.lines.Hard-b.lines.End)>>20, b.lines.Kubelet>>20)
	return nil
}

// arm puts evictd on the node, a new one, or takes it off. One that lives on takes the configuration.
func (b *bench) arm(ctx context.Context, arm, more string) error {
	if err := b.relieve(ctx); err != nil {
		return err
	}
	if b.lives {
		return b.edit(ctx, more)
	}
	if err := b.schedule(ctx, false); err != nil || arm == kubeletArm {
		return err
	}
	if arm == byNodeArm {
		more += "disk: {source: node}\n"
	}
	if err := b.form(ctx, arm); err != nil {
		return err
	}
	// The kubelet alone removes evictd's image with the other unused ones when its disk is short.
	if err := errors.Join(b.Node.Cluster.ImportImage(ctx, b.Node.Files.Image), b.Node.TellEvictd(kubeletsDefaults()), b.configure(ctx, more)); err != nil {
		return err
	}
	return b.schedule(ctx, true)
}

// form gives evictd's DaemonSet the form of an arm, while none of its pods is on the node.
func (b *bench) form(ctx context.Context, arm string) error {
	current, err := b.daemonSets().Get(ctx, "evictd", metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("reading evictd's DaemonSet: %w", err)
	}
	selector := current.Spec.Template.Spec.NodeSelector
	current.Spec.Template = *b.shipped.DeepCopy()
	current.Spec.Template.Spec.NodeSelector = selector
	if _, err = b.daemonSets().Update(ctx, current, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("giving evictd's DaemonSet its shipped form: %w", err)
	}
	if arm != byNodeArm {
		return nil
	}
	patch := filepath.Join(filepath.Dir(b.Node.Files.Manifest), "components", "disk-node", "daemonset.patch.yaml")
	_, err = b.Node.Kubectl(ctx, "-n", node.Namespace, "patch", "ds/evictd", "--patch-file", patch)
	return err
}

// relieve ends what an earlier run has left: the kubelet reports a pressure for five minutes more,
// and no pod is scheduled on its node meanwhile. A new kubelet does not know of it.
func (b *bench) relieve(ctx context.Context) error {
	tainted := func(ctx context.Context) bool {
		current, err := b.Node.Client.CoreV1().Nodes().Get(ctx, b.Node.Name(), metav1.GetOptions{})
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
	if err := b.restart(ctx, "kubelet"); err != nil {
		return err
	}
	err := node.Until(ctx, 2*time.Minute, func(ctx context.Context) bool { return !tainted(ctx) })
	if err != nil {
		return fmt.Errorf("waiting until the node is without pressure: %w", err)
	}
	return nil
}

// restart ends a process of the test cluster and starts it again.
func (b *bench) restart(ctx context.Context, process string) error {
	if err := b.Node.Cluster.StopProcess(ctx, process); err != nil {
		return err
	}
	return b.Node.Cluster.StartProcess(ctx, process)
}

// clear removes what a run has made, and waits until its pods are gone.
func (b *bench) clear(ctx context.Context) error {
	for _, kinds := range []string{"deployments,poddisruptionbudgets", "pods"} {
		if _, err := b.Node.Kubectl(ctx, "-n", namespace, "delete", kinds, "--all", "--wait=false", "--grace-period=1"); err != nil {
			return err
		}
	}
	var left []corev1.Pod
	err := node.Until(ctx, 90*time.Second, func(ctx context.Context) bool {
		pods, unread := b.Node.Client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
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
