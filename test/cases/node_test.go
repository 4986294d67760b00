package cases

import (
	"cmp"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evictd/evictd/test/internal/evictdtest"
)

const (
	nodeName  = "node-a"
	namespace = "apps"
	kubelet   = "var/lib/kubelet" // the folder of the kubelet and of the node's disk
	mebibyte  = 1 << 20
	gibibyte  = 1 << 30
)

// pod is one of the node, with what it uses.
type pod struct {
	*corev1.Pod

	use   Pod
	group string // its cgroup, below the mount
}

// node is the machine: files below a host root, as evictd reads them.
type node struct {
	*evictdtest.Host

	tb   testing.TB
	of   *Node
	pods []*pod
}

// newNode writes the files of a case's node and of its pods. A fault is one of the harness or of the case.
func newNode(tb testing.TB, c *Case) *node {
	tb.Helper()
	n := &node{Host: evictdtest.EmptyHost(tb), tb: tb, of: &c.Node}
	for name, text := range map[string]string{
		"proc/sys/kernel/pid_max": "4194304\n", "proc/sys/kernel/threads-max": "1000000\n", "proc/loadavg": "0.00 0.00 0.00 1/0100 4242\n",
		"proc/vmstat": "oom_kill 0\n", "proc/sys/kernel/random/boot_id": "0b5f8f00-0000-4000-8000-0000000000aa\n",
		"sys/fs/cgroup/cgroup.controllers": "cpuset cpu io memory pids\n",
		kubelet + "/config.yaml":           "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nevictionHard: {memory.available: 100Mi}\n",
		"proc/zoneinfo":                    "Node 0, zone   Normal\n  pagesets\n    cpu: 0\n              count:    0\n              high:     0\n              batch:    1\n",
	} {
		n.Write(name, text)
	}
	if c.Node.Disk == nil { // otherwise the images would be on another one
		n.Write("var/lib/containerd/io", "")
	}
	n.available(bytesOf(c.Node.Memory.Available, 8*gibibyte))
	if n.of.Cgroups.Kubepods == "" {
		n.of.Cgroups.Kubepods = "kubepods.slice"
	}
	n.group(n.of.Cgroups.Kubepods, bytesOf(n.of.Cgroups.Used, mebibyte), n.of.Cgroups.Limit)
	for _, use := range c.Pods {
		n.add(use)
	}
	for name, text := range c.Node.Files {
		n.Write(name, text)
	}
	for name, target := range c.Node.Links {
		n.must(os.MkdirAll(filepath.Dir(n.path(name)), 0o700))
		n.must(os.Symlink(target, n.path(name)))
	}
	return n
}

func (n *node) must(err error) {
	n.tb.Helper()
	if err != nil {
		n.tb.Fatalf("the harness: %v", err)
	}
}

func (n *node) path(name string) string { return filepath.Join(n.Root, name) }

// available sets MemAvailable, and what the kubelet takes for it.
func (n *node) available(available int64) {
	n.tb.Helper()
	n.Memory(n.total(), available)
	const root = "sys/fs/cgroup/memory.stat" // from which the kubelet computes what is available
	if _, isOf := n.of.Files[root]; !isOf {
		n.Write(root, evictdtest.MemoryStat(n.total()-available))
	}
}

func (n *node) total() int64 { return bytesOf(n.of.Memory.Total, 32*gibibyte) }

// group writes a cgroup of version 2, with more files than the tests of other packages need.
func (n *node) group(name string, holds int64, limit *resource.Quantity) {
	n.tb.Helper()
	most := "max"
	if limit != nil {
		most = fmt.Sprint(limit.Value())
	}
	name = path.Join("sys/fs/cgroup", name)
	n.Group(name, holds)
	n.Write(path.Join(name, "memory.max"), most+"\n")
	n.Write(path.Join(name, "memory.events"), "low 0\nhigh 0\nmax 0\noom 0\noom_kill 0\n")
	n.Write(path.Join(name, "cgroup.events"), "populated 1\nfrozen 0\n")
}

// add writes the cgroups of a pod, or of so many.
func (n *node) add(use Pod) {
	n.tb.Helper()
	name := use.Name
	for i := range max(1, use.Count) {
		if use.Count > 0 {
			use.Name = fmt.Sprintf("%s-%d", name, i+1)
		}
		made, err := overlaid(n.object(&use), use.Object)
		n.must(err)
		one := &pod{Pod: made, use: use}
		one.group = n.groupOf(one)
		n.group(one.group, bytesOf(use.Memory, mebibyte), nil)
		n.pods = append(n.pods, one)
	}
}

// uidOf returns the UID that the kubelet has for a pod: of a static pod the hash of its file.
func uidOf(p *pod) string {
	return cmp.Or(p.Annotations["kubernetes.io/config.mirror"], string(p.UID))
}

// groupOf returns the cgroup that the kubelet gives to a pod: by the systemd driver or by cgroupfs.
func (n *node) groupOf(p *pod) string {
	uid, class := uidOf(p), "burstable"
	if len(p.use.Requests) == 0 {
		class = "besteffort"
	}
	head, isSlice := strings.CutSuffix(path.Base(n.of.Cgroups.Kubepods), ".slice")
	if !isSlice {
		return path.Join(n.of.Cgroups.Kubepods, class, "pod"+uid)
	}
	class = head + "-" + class
	return path.Join(n.of.Cgroups.Kubepods, class+".slice", class+"-pod"+strings.ReplaceAll(uid, "-", "_")+".slice")
}

// object is a pod as the API server lists it.
func (n *node) object(use *Pod) *corev1.Pod {
	uid, created := types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012d", len(n.pods)+1)), metav1.NewTime(time.Now().Add(-time.Hour))
	grace, controls := int64(30), true
	return &corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			Name: use.Name, Namespace: namespace, UID: uid, CreationTimestamp: created, ResourceVersion: "1", Labels: map[string]string{"app": use.Name},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: use.Name, UID: "of-" + uid, Controller: &controls}},
		},
		Spec: corev1.PodSpec{
			NodeName: nodeName, TerminationGracePeriodSeconds: &grace,
			Containers: []corev1.Container{{Name: "main", Image: "none", Resources: corev1.ResourceRequirements{Requests: use.Requests}}},
		},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
			ContainerStatuses: []corev1.ContainerStatus{{
				Name: "main", ContainerID: "containerd://main", Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: created}},
			}},
		},
	}
}

// ends removes the cgroup of a pod. As with the kernel's, no file that is open can be read any more: it is empty.
func (n *node) ends(name string) {
	n.tb.Helper()
	for _, p := range n.pods {
		if p.Name == name {
			group := n.path(path.Join("sys/fs/cgroup", p.group))
			for _, file := range []string{"memory.stat", "memory.current", "pids.current"} {
				n.must(os.Truncate(filepath.Join(group, file), 0))
			}
			n.must(os.RemoveAll(group))
			return
		}
	}
	n.tb.Fatalf("the case: then.ends: there is no pod %q", name)
}

// fill leaves so many bytes of the node's disk. Only the process that runs in the mount namespace sees it.
func (n *node) fill(left int64, process int) {
	n.tb.Helper()
	disk := filepath.Join("/proc", fmt.Sprint(process), "root", n.path(kubelet))
	var now unix.Statfs_t
	n.must(unix.Statfs(disk, &now))
	file, err := os.OpenFile(filepath.Join(disk, "fill"), os.O_RDWR|os.O_CREATE, 0o600)
	n.must(err)
	defer file.Close()
	info, err := file.Stat()
	n.must(err)
	size := info.Size() + int64(now.Bavail)*now.Bsize - left
	if size <= info.Size() {
		n.must(file.Truncate(size))
		return
	}
	n.must(unix.Fallocate(int(file.Fd()), 0, 0, size))
}

// bytesOf is a quantity, or what there is without one.
func bytesOf(quantity *resource.Quantity, without int64) int64 {
	if quantity == nil {
		return without
	}
	return quantity.Value()
}

func quantity(bytes int64) *resource.Quantity { return resource.NewQuantity(bytes, resource.BinarySI) }
