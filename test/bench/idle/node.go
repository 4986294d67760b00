package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/evictd/evictd/test/cluster"
	"github.com/evictd/evictd/test/internal/measure"
)

const (
	nodeName   = "idle-node"
	cgroupRoot = "/sys/fs/cgroup"
)

// idleNode is a node without a kubelet: the API server has it and its pods, and the pods
// have cgroups without processes. Without pressure evictd reads none of them.
type idleNode struct {
	window  time.Duration // how long one measurement takes
	dir     string
	cluster *cluster.Cluster
	client  kubernetes.Interface
	// group is that of the pods, relative to each hierarchy. It is not named kubepods: an evictd of a real node on the
	// machine would find two and report that.
	group string
}

func (n *idleNode) make(ctx context.Context) error {
	n.group = "pods-of-the-idle-node-" + strconv.Itoa(os.Getpid())
	// What the shipped DaemonSet mounts below its host root; only the filesystem of the
	// directories matters.
	for _, dir := range []string{"host/var/lib/kubelet", "host/var/lib/containerd", "host/sys/fs"} {
		if err := os.MkdirAll(filepath.Join(n.dir, dir), 0o700); err != nil {
			return fmt.Errorf("making a folder: %w", err)
		}
	}
	for name, target := range map[string]string{"host/proc": "/proc", "host/sys/fs/cgroup": cgroupRoot} {
		if err := os.Symlink(target, filepath.Join(n.dir, name)); err != nil {
			return fmt.Errorf("making the host's root: %w", err)
		}
	}
	if err := n.register(ctx); err != nil {
		return err
	}
	for i := range pods {
		uid, err := n.pod(ctx, i)
		if err != nil {
			return err
		}
		if err := n.makeGroup("burstable/pod" + uid + "/container"); err != nil {
			return err
		}
	}
	return nil
}

func (n *idleNode) register(ctx context.Context) error {
	total, err := measure.Bytes("/proc/meminfo", "MemTotal")
	if err != nil {
		return err
	}
	node, err := n.client.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName}}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("making the node: %w", err)
	}
	node.Status.Capacity = corev1.ResourceList{corev1.ResourceMemory: *resource.NewQuantity(total, resource.BinarySI)}
	if _, err = n.client.CoreV1().Nodes().UpdateStatus(ctx, node, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("writing the node's capacity: %w", err)
	}
	return nil
}

// pod creates one pod on the node and returns its UID.
func (n *idleNode) pod(ctx context.Context, number int) (string, error) {
	noToken, request := false, resource.MustParse("64Mi")
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "idle-" + strconv.Itoa(number), Labels: map[string]string{"app": "idle"}},
		Spec: corev1.PodSpec{
			NodeName: nodeName, AutomountServiceAccountToken: &noToken,
			Containers: []corev1.Container{{
				Name: "idle", Image: cluster.PauseImage,
				Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceMemory: request}},
			}},
		},
	}
	made, err := n.client.CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("making pod %s: %w", pod.Name, err)
	}
	made.Status.Phase = corev1.PodRunning
	if _, err = n.client.CoreV1().Pods("default").UpdateStatus(ctx, made, metav1.UpdateOptions{}); err != nil {
		return "", fmt.Errorf("writing the status of pod %s: %w", pod.Name, err)
	}
	return string(made.UID), nil
}

// hierarchies returns the mounts in which the groups are created.
func hierarchies() []string {
	if unified() {
		return []string{cgroupRoot}
	}
	return []string{cgroupRoot + "/memory", cgroupRoot + "/pids"}
}

func unified() bool {
	_, err := os.Stat(cgroupRoot + "/cgroup.controllers")
	return err == nil
}

// makeGroup creates a group below that of the pods. On v2 each group delegates its
// controllers.
func (n *idleNode) makeGroup(name string) error {
	for _, mount := range hierarchies() {
		dir := filepath.Join(mount, n.group, name)
		if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // the mode of every cgroup
			return fmt.Errorf("making a cgroup: %w", err)
		}
		if !unified() {
			continue
		}
		for above := filepath.Dir(dir); above != mount; above = filepath.Dir(above) {
			err := os.WriteFile(filepath.Join(above, "cgroup.subtree_control"), []byte("+memory +pids"), 0o600)
			if err != nil && above == filepath.Join(mount, n.group) {
				return fmt.Errorf("handing controllers down: %w", err)
			}
		}
	}
	return nil
}

// remove removes the groups.
func (n *idleNode) remove(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	return cluster.RemoveCgroups(ctx, n.group)
}
