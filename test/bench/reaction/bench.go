package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evictd/evictd/test/cluster"
	"github.com/evictd/evictd/test/internal/audit"
	"github.com/evictd/evictd/test/internal/measure"
	"github.com/evictd/evictd/test/internal/memory"
	"github.com/evictd/evictd/test/internal/node"
	"github.com/evictd/evictd/test/internal/rig"
)

const (
	megabyte = 1_000_000
	gigabyte = 1000 * megabyte
	mebibyte = 1 << 20

	maxPods = 110 // what a kubelet takes by default
	ownPods = 2   // evictd's and the allocator's

	// evictdBelow and kubeletBelow are how far the thresholds are below the available memory
	// when everything is running. The distance is kept small: a virtual machine's memory
	// that was not used for a while may have to come from its host first, and then no single
	// thread allocates 1 GB/s. In an evictd run the allocator cannot reach the kubelet's
	// threshold.
	evictdBelow  = 2700 * megabyte
	kubeletBelow = 4200 * megabyte
	// kubeletWay is how far above its threshold a kubelet run starts at 1 GB/s.
	kubeletWay = 2600 * megabyte
	// spare is the ballast when everything is running: the rest of the machine may use that
	// much more memory later.
	spare = 1024 * mebibyte
	// needed is the memory that must be available before the start: the node uses about 3
	// GiB with 110 pods, and must not come near the kernel's OOM killer.
	needed = 10 << 30
)

// looksOn is the label of pods that evictd does not evict.
const looksOn = "evictd-looks-on"

// idlePriority is above the allocator's: both agents evict the allocator, even when the
// kubelet's figure of its usage is too old to show that it exceeds its request.
const idlePriority = "idle"

// bench is one run of the command.
type bench struct {
	rig.Rig // its folder has the files for which the allocators wait

	settings settings
	audit    audit.Log
	lines    map[agent]int64
	count    int // allocators so far
	results  []result
	// workingSet reads the kubelet's memory.available.
	workingSet func() (int64, error)
	repeated   int // runs that were disturbed and repeated
}

func (b *bench) up(ctx context.Context) error {
	const idleValue = 1000
	var err error
	if b.workingSet, err = memory.WorkingSet(); err != nil {
		return err
	}
	available, err := b.workingSet()
	if err != nil {
		return err
	}
	if available < needed {
		return fmt.Errorf("%d MiB are available, %d are needed: the thresholds must lie far above the kernel's own limits",
			available>>20, needed>>20)
	}
	err = b.Start(ctx, namespace, idlePriority, idleValue, func(o *cluster.Options) { o.AuditPolicy = auditPolicy })
	if err != nil {
		return err
	}
	b.audit.Path = b.Node.Cluster.AuditLog()
	b.Say("%d idle pods start.", b.settings.idlePods())
	if err := b.idle(ctx); err != nil {
		return err
	}
	if b.settings.busy() {
		if err := b.busy(ctx); err != nil {
			return err
		}
	}
	b.Say("kubectl apply -f deploy/daemonset.yaml; then the thresholds.")
	if err := b.Node.Deploy(ctx); err != nil {
		return err
	}
	if err := b.arm(ctx); err != nil {
		return err
	}
	const rest = 30 * time.Second // a kubelet that has just started a hundred pods is busy
	return measure.Sleep(ctx, rest)
}

// arm applies both thresholds. The kubelet reads its own only at its start.
func (b *bench) arm(ctx context.Context) error {
	if err := b.Ballast.Set(spare); err != nil {
		return err
	}
	kernel, err := memory.Kernel()
	if err != nil {
		return err
	}
	kubelets, err := b.workingSet()
	if err != nil {
		return err
	}
	b.lines = map[agent]int64{byEvictd: kernel - evictdBelow, byKubelet: kubelets - kubeletBelow}
	b.Say("Thresholds: evictd's at %d MiB of its memory.available (%d now), the kubelet's at %d MiB of its memory.available (%d now).",
		b.lines[byEvictd]>>20, kernel>>20, b.lines[byKubelet]>>20, kubelets>>20)
	hard := map[string]string{node.NodeMemory: strconv.FormatInt(b.lines[byKubelet], 10)}
	err = b.Node.Cluster.SetKubelet(ctx, map[string]any{"evictionHard": hard})
	if err != nil {
		return err
	}
	return b.Node.Configure(ctx, node.Policy{
		Signal: node.NodeMemory, Line: b.lines[byEvictd],
		Extra: "protect: {barePods: false, podSelector: {matchLabels: {" + looksOn + ": \"true\"}}}\n",
	})
}

// idle fills the node with pods that do nothing.
func (b *bench) idle(ctx context.Context) error {
	wanted := b.settings.idlePods()
	for i := range wanted {
		w := node.Workload{Name: "idle-" + strconv.Itoa(i), AsksMiB: 16, Change: func(spec *corev1.PodSpec) {
			spec.PriorityClassName = idlePriority
		}}
		if err := b.create(ctx, w); err != nil {
			return err
		}
	}
	err := node.Until(ctx, 10*time.Minute, func(ctx context.Context) bool {
		list, unread := b.Node.Client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{FieldSelector: "status.phase=Running"})
		return unread == nil && len(list.Items) == wanted
	})
	if err != nil {
		return fmt.Errorf("waiting for %d idle pods: %w", wanted, err)
	}
	return nil
}

// create creates a pod on the node, bypassing the scheduler, which would not place it while
// the kubelet reports pressure. Evictd does not evict it at first.
func (b *bench) create(ctx context.Context, w node.Workload) error {
	pod := w.Pod()
	pod.Labels[looksOn] = "true"
	pod.Spec.NodeName = b.Node.Name()
	var last error
	err := node.Until(ctx, 30*time.Second, func(ctx context.Context) bool {
		// A new namespace has no service account at first.
		_, last = b.Node.Client.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{})
		return last == nil
	})
	if err != nil {
		return fmt.Errorf("making pod %s: %w", w.Name, errors.Join(err, last))
	}
	return nil
}

// remove deletes a pod and waits until it is gone, and its memory is reclaimed.
func (b *bench) remove(ctx context.Context, name string) error {
	_, err := b.Node.Kubectl(ctx, "-n", namespace, "delete", "pod", name, "--grace-period=1", "--ignore-not-found", "--timeout=2m")
	return err
}
