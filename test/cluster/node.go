package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

const (
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

// nodeLock is locked while a node runs on the machine: two would restore each other's kernel settings. It has what
// these were before, so that the next start restores them after a crash.
const nodeLock = "/run/evictd-node.lock"

// machine is what a node changes on its machine.
type machine struct {
	lock    *os.File
	sysctls map[string]string // their values before the kubelet
	enabled []string          // cgroup controllers that were switched on
	cgroup  string            // absolute, in every hierarchy
	disks   []string          // directories on their own filesystems, the outer one first
	inside  *thread           // in the node's mount namespace, which exists at least as long; nil before
}

func (c *Cluster) nodeBinds() []bind {
	return []bind{
		{source: c.path(nodeFolder, "kubelet"), target: kubeletRoot},
		{source: c.path(containerdFolder()), target: containerdRoot},
		{source: c.path(nodeFolder, "run-containerd"), target: containerdState},
		{source: c.path(nodeFolder, "log-pods"), target: "/var/log/pods"},
		{source: c.path(nodeFolder, "log-containers"), target: "/var/log/containers"},
	}
}

// takeMachine removes what a crashed node has left on the machine, and creates the cgroups in which every process
// of the cluster is started. Its error leaves nothing behind that the next start would not find.
func takeMachine(ctx context.Context, options Options) (*machine, error) {
	if _, err := findRunc(); err != nil {
		return nil, err
	}
	if err := checkFilesystem(options.Dir); err != nil {
		return nil, err
	}
	m := &machine{cgroup: "/" + cgroupRootPrefix + strconv.Itoa(os.Getpid())}
	if err := m.takeLock(); err != nil {
		return nil, err
	}
	if err := removeLeftovers(ctx, options); err != nil {
		return m, err
	}
	missing, err := controllersToEnable()
	if err != nil {
		return m, err
	}
	if err := switchControllers("+", missing); err != nil {
		return m, err
	}
	m.enabled = missing
	return m, makeCgroups(m.cgroup)
}

// takeLock takes the machine, and keeps the kernel's settings in the file of the lock.
func (m *machine) takeLock() (err error) {
	if m.lock, err = os.OpenFile(nodeLock, os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return fmt.Errorf("locking the machine: %w", err)
	}
	if err = unix.Flock(int(m.lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); errors.Is(err, unix.EWOULDBLOCK) {
		return errors.Join(errors.New("starting a node: another one runs on this machine; stop it first"), m.lock.Close())
	}
	if err != nil {
		return errors.Join(fmt.Errorf("locking the machine: %w", err), m.lock.Close())
	}
	if m.sysctls, err = sysctlsBefore(); err != nil {
		return errors.Join(err, m.lock.Close())
	}
	content, err := json.Marshal(m.sysctls)
	if err == nil {
		_, err = m.lock.WriteAt(content, 0)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("recording the kernel's settings: %w", err), m.lock.Close())
	}
	return nil
}

// removeLeftovers ends what a node has left in its cgroups when its program was killed.
func removeLeftovers(ctx context.Context, options Options) error {
	roots, err := nodeCgroups()
	for _, root := range roots {
		say(options.Log, "Removing what an earlier node left in cgroup %s.", root)
		err = errors.Join(err, emptyCgroups(ctx, root, nil), RemoveCgroups(ctx, root))
	}
	return err
}

// leave undoes what the node has changed, after its processes have ended.
func (m *machine) leave(ctx context.Context, options Options) error {
	if m == nil {
		return nil
	}
	if m.inside != nil {
		if err := m.inside.end(ctx); err != nil {
			return fmt.Errorf("leaving the node's mount namespace: %w", err)
		}
		m.inside = nil
	}
	if err := RemoveCgroups(ctx, m.cgroup); err != nil {
		return err
	}
	if err := switchControllers("-", m.enabled); err != nil {
		// Other processes rely on them by now.
		say(options.Log, "Leaving cgroup controllers on: %v.", err)
	}
	m.enabled = nil
	if err := restoreSysctls(m.sysctls); err != nil {
		return err
	}
	return errors.Join(m.lock.Truncate(0), m.lock.Close())
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
func (c *Cluster) startNode(ctx context.Context, at endpoints) error {
	if err := c.makeDisks(ctx, c.options.Disk); err != nil {
		return err
	}
	if err := c.startComponent(ctx, c.scheduler(at)); err != nil {
		return err
	}
	var err error
	if c.node.inside, err = newThread(c.enterNode); err != nil {
		c.node.inside = nil
		return err
	}
	containerd, err := c.containerd()
	if err != nil {
		return err
	}
	if err = c.startComponent(ctx, containerd); err != nil {
		return err
	}
	if err = c.importPause(ctx, c.options.BinDir); err != nil {
		return err
	}
	kubelet, err := c.kubelet(at, c.options)
	if err != nil {
		return err
	}
	if err := c.startComponent(ctx, kubelet); err != nil {
		return err
	}
	return c.join(ctx)
}

// endContainers ends the kubelet, then the containers and their shims. None of
// them reacts to the end of another, and containerd still reaps its own children. The cluster's own processes
// end after that.
func (c *Cluster) endContainers(ctx context.Context) error {
	if c.node == nil {
		return nil
	}
	var own []int
	for _, each := range c.components {
		process := each.process.Load()
		if each.name == kubeletName {
			if err := process.stop(ctx, quitGrace); err != nil {
				return err
			}
		}
		if process.running() {
			own = append(own, process.Pid)
		}
	}
	say(c.options.Log, "Ending the containers.")
	return emptyCgroups(ctx, c.node.cgroup, own)
}
