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

	"github.com/evictd/evictd/internal/decide"
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
	// mostPods is its maxPods: one scenario has 110 pods beside its others.
	mostPods = 130
)

// bench is one run of the command.
type bench struct {
	rig.Rig

	settings   settings
	address    string // of the replicated service
	room       room
	disk       disk
	lines      lines
	kubernetes string // its version
	lives      bool   // evictd is on the node and stays there from run to run
}

func (b *bench) up(ctx context.Context) error {
	err := b.refuse()
	if err != nil {
		return err
	}
	b.room.ballast = &b.Ballast
	if b.address, err = cluster.FreeAddress(ctx); err != nil {
		return err
	}
	err = b.Start(ctx, namespace, topClass, topValue, func(o *cluster.Options) {
		// One filesystem for the kubelet, the runtime and the logs: nodefs and imagefs are the same, as on most nodes.
		o.Disk = &cluster.Disk{Size: diskSize, Inodes: diskInodes}
		o.Kubelet["evictionHard"], o.Kubelet["podPidsLimit"], o.Kubelet["maxPods"] = kubeletsDefaults(), podPIDs, mostPods
		// Its collection of unused images by default, which the test cluster switches off otherwise.
		maps.Copy(o.Kubelet, map[string]any{"imageGCHighThresholdPercent": 85, "imageGCLowThresholdPercent": 80, "imageMinimumGCAge": "2m"})
		if b.settings.soak > 0 {
			// The kubelet's figures of volumes follow a pod in seconds, so that no round waits for them.
			o.Kubelet["volumeStatsAggPeriod"] = "10s"
		}
	})
	if err != nil {
		return err
	}
	if err = errors.Join(b.room.findGroup(), b.disk.find(b.Node)); err != nil {
		return err
	}
	current, err := b.Node.Client.CoreV1().Nodes().Get(ctx, b.Node.Name(), metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("reading the node: %w", err)
	}
	b.kubernetes = current.Status.NodeInfo.KubeletVersion
	return b.draw()
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
	if slices.ContainsFunc(catalogue(), func(s Scenario) bool { return s.onDisk() && slices.Contains(b.settings.only, s.Number) }) {
		return enoughDisk(os.TempDir())
	}
	return nil
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
	const hardShare, softShare, percent, kubelets = 5, 10, 100, 100 * mebibyte
	end := kernel - standIn - spare
	b.lines = lines{End: end, Hard: end + standIn*hardShare/percent, Soft: end + standIn*softShare/percent, Kubelet: kubelets}
	b.Say("The node has %d MiB, and ends where %d MiB are available. Lines above its end: evictd's %d and %d MiB, the kubelet's %d MiB.",
		int64(standIn)>>20, b.lines.End>>20, (b.lines.Soft-b.lines.End)>>20, (b.lines.Hard-b.lines.End)>>20, b.lines.Kubelet>>20)
	return nil
}

// arm puts evictd on the node, a new one, or takes it off. One that lives on takes the configuration. That is the shipped
// one, with further lines, without the dry run, and with the memory's thresholds in bytes: of the machine, and of the
// limit of all pods, which is the stand-in node's. It returns from when on evictd may evict: a start that knows nothing
// of the time before evicts no pod for some time.
func (b *bench) arm(ctx context.Context, arm string, s *Scenario, policy node.Policy) (from time.Time, err error) {
	if err = b.relieve(ctx); err != nil {
		return from, err
	}
	if !b.lives {
		_, err = b.Node.Kubectl(ctx, "-n", node.Namespace, "delete", "ds/evictd", "--ignore-not-found", "--cascade=foreground", "--timeout=2m")
		if err != nil || arm == kubeletArm {
			return from, err
		}
		// The kubelet alone removes evictd's image with the other unused ones when its disk is short.
		if err = errors.Join(b.Node.Cluster.ImportImage(ctx, b.Node.Files.Image), b.Node.Deploy(ctx)); err != nil {
			return from, err
		}
	}
	if arm == byNodeArm {
		policy.Extra += "disk: {source: node}\n"
		patch := filepath.Join(filepath.Dir(b.Node.Files.Manifest), "components", "disk-node", "daemonset.patch.yaml")
		if err = b.Node.Change(ctx, "patch", "ds/evictd", "--patch-file", patch); err != nil {
			return from, err
		}
	}
	if !s.ByDefault {
		policy.Extra += b.thresholds()
	}
	err = errors.Join(b.Node.TellEvictd(kubeletsDefaults()), b.Node.Configure(ctx, policy))
	if !b.lives {
		from = time.Now().Add(decide.CollectedWithin)
	}
	return from, err
}

// thresholds are evictd's, by the lines.
func (b *bench) thresholds() string {
	return fmt.Sprintf(`evictionHard: {memory.available: "%d", allocatableMemory.available: "%d", nodefs.available: 12%%, nodefs.inodesFree: 6%%, imagefs.available: 16%%, imagefs.inodesFree: 6%%}
evictionSoft: {memory.available: "%d", allocatableMemory.available: "%d"}
evictionSoftGracePeriod: {memory.available: 30s, allocatableMemory.available: 30s}
`, b.lines.Hard, b.lines.Hard-b.lines.End, b.lines.Soft, b.lines.Soft-b.lines.End)
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
	for _, words := range [][]string{
		{"deployments,poddisruptionbudgets", "--wait=false", "--cascade=foreground"},
		{"pods", "--wait=false", "--grace-period=1"},
		{"deployments,pods", "--cascade=foreground", "--timeout=90s"},
	} {
		if _, err := b.Node.Kubectl(ctx, append([]string{"-n", namespace, "delete", "--all"}, words...)...); err != nil {
			return err
		}
	}
	return nil
}

// keepLog keeps evictd's log beside the result, to find out why.
func (b *bench) keepLog(ctx context.Context, name string) error {
	log, err := b.Node.Log(ctx)
	err = errors.Join(err, os.MkdirAll(b.settings.results, 0o755), //nolint:gosec // it is for reading
		os.WriteFile(filepath.Join(b.settings.results, name+".evictd.log"), []byte(log), 0o600))
	if err != nil {
		return fmt.Errorf("keeping evictd's log: %w", err)
	}
	return nil
}
