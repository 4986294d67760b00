package cluster

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"

	"golang.org/x/sys/unix"
)

const (
	namespaceName  = "mount-namespace"
	containerdName = "containerd"
	kubeletName    = "kubelet"
)

// The paths of a standard node. Inside the node's mount namespace the cluster's own
// directories are there.
const (
	kubeletRoot      = "/var/lib/kubelet"
	containerdRoot   = "/var/lib/containerd"
	containerdState  = "/run/containerd"
	containerdSocket = containerdState + "/containerd.sock"
)

func (c *Cluster) nodeBinds() []bind {
	return []bind{
		{source: c.path(nodeFolder, "kubelet"), target: kubeletRoot},
		{source: c.path(containerdFolder()), target: containerdRoot},
		{source: c.path(nodeFolder, "run-containerd"), target: containerdState},
		{source: c.path(nodeFolder, "log-pods"), target: "/var/log/pods"},
		{source: c.path(nodeFolder, "log-containers"), target: "/var/log/containers"},
	}
}

// prepareNode records the machine's state that the node will change, and creates the cgroups
// in which every process of the cluster is started.
func (c *Cluster) prepareNode() error {
	if _, err := findRunc(); err != nil {
		return err
	}
	if other, err := otherNode(); err != nil || other != "" {
		return errors.Join(err, fmt.Errorf("starting a node: another one runs on this machine, in cgroup %s; stop it first", other))
	}
	if err := checkFilesystem(c.dir); err != nil {
		return err
	}
	settings, err := readSysctls()
	if err != nil {
		return err
	}
	missing, err := controllersToEnable()
	if err != nil {
		return err
	}
	sum := sha256.Sum256([]byte(c.dir))
	root := "/" + cgroupRootPrefix + hex.EncodeToString(sum[:4])
	err = c.update(func(s *state) { s.Sysctls, s.CgroupRoot, s.Enabled = settings, root, missing })
	if err != nil {
		return err
	}
	if err := switchControllers("+", missing); err != nil {
		return err
	}
	return makeCgroups(root)
}

// checkFilesystem rejects a directory in which containerd could not unpack an image: its
// layers are overlays, and the kernel cannot stack them.
func checkFilesystem(dir string) error {
	var filesystem unix.Statfs_t
	if err := unix.Statfs(dir, &filesystem); err != nil {
		return fmt.Errorf("asking for the filesystem of %s: %w", dir, err)
	}
	if filesystem.Type == unix.OVERLAYFS_SUPER_MAGIC {
		return fmt.Errorf("starting a node: %s lies on overlayfs, which containers cannot use; choose a folder on a disk", dir)
	}
	return nil
}

// startNode runs the scheduler, containerd and the kubelet, and waits until the node accepts
// pods.
func (c *Cluster) startNode(ctx context.Context, at endpoints, options Options) error {
	if err := c.makeDisks(ctx, options.Disk); err != nil {
		return err
	}
	if err := c.startComponent(ctx, c.scheduler(at)); err != nil {
		return err
	}
	if err := c.holdNamespace(options.BinDir); err != nil {
		return err
	}
	containerd, err := c.containerd()
	if err != nil {
		return err
	}
	if err = c.startComponent(ctx, containerd); err != nil {
		return err
	}
	if err = c.importPause(ctx, options.BinDir); err != nil {
		return err
	}
	kubelet, err := c.kubelet(at, options)
	if err != nil {
		return err
	}
	if err := c.startComponent(ctx, kubelet); err != nil {
		return err
	}
	return c.join(ctx, options.NodeName)
}

// holdNamespace creates the node's mount namespace and leaves an idle process in it, so that
// it exists while containerd and the kubelet restart.
func (c *Cluster) holdNamespace(binDir string) error {
	holder := component{Name: namespaceName, Path: filepath.Join(binDir, "workload"), InNode: true}
	err := c.update(func(s *state) { s.Components = append(s.Components, holder) })
	if err != nil {
		return err
	}
	return c.relaunchNamespace()
}

func (c *Cluster) relaunchNamespace() error {
	found, read, err := c.find(namespaceName)
	if err != nil {
		return err
	}
	prepare := func() error { return c.mountDisks(read) }
	return inNewNamespace(prepare, c.nodeBinds(), func() error {
		// Already inside: the launch itself must not look for the namespace.
		outside := *found
		outside.InNode = false
		return c.launch(read, &outside)
	})
}

// inNode runs f in the node's mount namespace, through any process that is in it.
func (c *Cluster) inNode(read *state, f func() error) error {
	for _, each := range read.Components {
		if each.InNode && each.Process.Running() {
			return inNamespaceOf(each.Process.PID, f)
		}
	}
	return errors.New("entering the node's mount namespace: none of its processes runs; stop the cluster and start it again")
}
