package cluster

import (
	"bytes"
	"context"
	_ "embed"
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
// directories are there: node.sh.
const (
	kubeletRoot      = "/var/lib/kubelet"
	containerdRoot   = "/var/lib/containerd"
	containerdState  = "/run/containerd"
	containerdSocket = containerdState + "/containerd.sock"
)

// nodeLock is locked while a node runs on the machine: the next would take its cgroups for what a killed one has left.
const nodeLock = "/run/evictd-node.lock"

// machine is what a node changes on its machine.
type machine struct {
	lock    *os.File
	control string   // the file of cgroup controllers that were switched on
	enabled []string // these
	cgroup  string   // absolute, in every hierarchy
	disks   []string // directories on their own filesystems, the outer one first
	inside  *thread  // in the node's namespaces, which exist at least as long; nil before
}

// takeMachine removes what a killed node has left on the machine, and creates the cgroup of the pods. Its error
// leaves nothing behind that the next start would not find.
func takeMachine(ctx context.Context, options Options) (*machine, error) {
	if _, err := findProgram("runc", "runc"); err != nil {
		return nil, err
	}
	if err := checkFilesystem(options.Dir); err != nil {
		return nil, err
	}
	m := &machine{cgroup: "/" + cgroupRootPrefix + strconv.Itoa(os.Getpid())}
	if err := m.takeLock(); err != nil {
		return nil, err
	}
	if err := removeLeftovers(ctx); err != nil {
		return m, err
	}
	return m, m.makeCgroup()
}

// takeLock takes the machine.
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
	return nil
}

// leave undoes what the node has changed, after its processes have ended.
func (m *machine) leave(ctx context.Context, options Options) error {
	if m == nil {
		return nil
	}
	if err := RemoveCgroups(ctx, m.cgroup); err != nil {
		return err
	}
	if err := m.switchControllers("-"); err != nil {
		// Other processes rely on them by now.
		say(options.Log, "Leaving cgroup controllers on: %v.", err)
	}
	m.enabled = nil
	return m.lock.Close()
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
func (c *Cluster) startNode(ctx context.Context) error {
	if err := c.makeDisks(ctx, c.options.Disk); err != nil {
		return err
	}
	if err := c.startComponent(ctx, c.scheduler()); err != nil {
		return err
	}
	first, err := c.first()
	if err != nil {
		return err
	}
	c.node.inside, err = newThread(func() error { return unix.Unshare(unix.CLONE_NEWNS | unix.CLONE_NEWPID) })
	if err != nil {
		c.node.inside = nil
		return fmt.Errorf("making the node's namespaces: %w", err)
	}
	if err = c.startComponent(ctx, first); err != nil {
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
	kubelet, err := c.kubelet(c.options)
	if err != nil {
		return err
	}
	if err := c.startComponent(ctx, kubelet); err != nil {
		return err
	}
	return c.join(ctx)
}

//go:embed node.sh
var firstProcess string

// first is the first process in the node's namespaces, with which all others there end. It is ready when it has made
// the machine look like a standard node.
func (c *Cluster) first() (*component, error) {
	pids, err := os.ReadFile("/proc/sys/kernel/pid_max")
	if err != nil {
		return nil, fmt.Errorf("reading how many processes there may be: %w", err)
	}
	const name = "node.sh"
	return &component{
		name: name, program: "/bin/sh", inNode: true,
		arguments: append([]string{"-c", firstProcess, name, c.dir, string(bytes.TrimSpace(pids))}, c.node.disks...),
		probe: func(context.Context) error {
			said, err := os.ReadFile(c.LogFile(name))
			if err == nil && !bytes.HasSuffix(said, []byte("ready\n")) {
				err = errors.New("it has not made its mounts yet")
			}
			return err
		},
	}, nil
}
