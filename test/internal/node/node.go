package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/evictd/evictd/test/cluster"
	"github.com/evictd/evictd/test/internal/eventually"
)

// Namespace is evictd's namespace in the shipped manifest.
const Namespace = "evictd"

// Account is evictd's service account, as the API server names it.
const Account = "system:serviceaccount:" + Namespace + ":evictd"

// Where evictd serves on its node, whose network it uses: what every client may read, and the document.
const (
	address      = "http://127.0.0.1:9464"
	debugAddress = "http://127.0.0.1:9465"
)

// Files are the files that the Makefile has built.
type Files struct {
	// ClusterBin holds the cluster's binaries, Image is evictd's docker-archive,
	// Binary is evictd itself, Manifest the shipped manifest.
	ClusterBin, Image, Binary, Manifest string
}

// FilesFromEnvironment returns the paths that the Makefile passes on.
func FilesFromEnvironment() (Files, error) {
	f := Files{
		ClusterBin: os.Getenv("EVICTD_CLUSTER_BIN"),
		Image:      os.Getenv("EVICTD_IMAGE"),
		Binary:     os.Getenv("EVICTD_BIN"),
	}
	for name, path := range map[string]string{
		"EVICTD_CLUSTER_BIN": f.ClusterBin, "EVICTD_IMAGE": f.Image, "EVICTD_BIN": f.Binary,
	} {
		if _, err := os.Stat(path); path == "" || err != nil {
			return f, fmt.Errorf("$%s=%q names nothing that is there: run it by make", name, path)
		}
	}
	f.Manifest = filepath.Join(filepath.Dir(f.Binary), "..", "deploy", "daemonset.yaml")
	return f, nil
}

// Node is a running node.
type Node struct {
	Cluster *cluster.Cluster
	Client  kubernetes.Interface
	Files   Files
	// Disk is the disk of the node's directories; the zero value is the machine's own.
	Disk  cluster.Disk
	dir   string
	edits int64 // of evictd's configuration
	// inForce is the policy of the last edit; nil where that is not known.
	inForce *Policy
}

// Start starts the node, with evictd's image on it but not yet evictd. The options of the
// cluster may be changed before it starts.
func Start(ctx context.Context, files Files, log io.Writer, change func(*cluster.Options)) (*Node, error) {
	dir, err := os.MkdirTemp("", "evictd-node-")
	if err != nil {
		return nil, fmt.Errorf("making the node's folder: %w", err)
	}
	options := cluster.Options{
		Dir: dir, BinDir: files.ClusterBin, Node: true, Log: log,
		// An edit of the ConfigMap then reaches the pod in seconds; the default is a minute.
		Kubelet: map[string]any{"syncFrequency": "3s"},
	}
	change(&options)
	c, err := cluster.Start(ctx, options)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	n := &Node{Cluster: c, Client: c.Client(), Files: files, dir: dir}
	if options.Disk != nil {
		n.Disk = *options.Disk
	}
	if err := c.ImportImage(ctx, files.Image); err != nil {
		return nil, errors.Join(err, n.Stop(context.WithoutCancel(ctx)))
	}
	return n, nil
}

// Stop ends everything and removes its files.
func (n *Node) Stop(ctx context.Context) error {
	return errors.Join(n.Cluster.Stop(ctx), os.RemoveAll(n.dir))
}

// Name is the node's name in the API.
func (*Node) Name() string { return cluster.NodeName }

// HostPath returns the test's path, and the node's path, of a file below the root of the
// node's own filesystem.
func (n *Node) HostPath(name string) (here, there string) {
	there = filepath.Join(n.Cluster.DiskDir(), name)
	return n.Cluster.InNode(there), there
}

// DiskAvailable returns what is available on the node's own filesystem, or on that of its
// images, by statfs.
func (n *Node) DiskAvailable(signal string) (int64, error) {
	dir := n.Cluster.DiskDir()
	if signal == ImageSpace {
		dir = n.Cluster.ImagesDir()
	}
	path := n.Cluster.InNode(dir)
	space, inodes, err := Available(path)
	if signal == DiskInodes {
		return inodes, err
	}
	return space, err
}

// Available returns what is available on the filesystem of a directory, in bytes and in inodes.
func Available(dir string) (space, inodes int64, err error) {
	var filesystem unix.Statfs_t
	if err = unix.Statfs(dir, &filesystem); err != nil {
		return 0, 0, fmt.Errorf("reading the filesystem of %s: %w", dir, err)
	}
	return int64(filesystem.Bavail) * filesystem.Bsize, int64(filesystem.Ffree), nil //nolint:gosec // far below
}

// Kubectl is [cluster.Cluster.Kubectl] without input.
func (n *Node) Kubectl(ctx context.Context, arguments ...string) (string, error) {
	return n.Cluster.Kubectl(ctx, "", arguments...)
}

// Deploy applies the shipped manifest unchanged and waits until evictd is ready.
func (n *Node) Deploy(ctx context.Context) error {
	n.ForgetPolicy()
	if _, err := n.Kubectl(ctx, "apply", "-f", n.Files.Manifest); err != nil {
		return err
	}
	return n.rollOut(ctx)
}

// Change changes evictd's DaemonSet by a command of kubectl, and waits until the new evictd is ready.
func (n *Node) Change(ctx context.Context, command ...string) error {
	if _, err := n.Kubectl(ctx, append([]string{"-n", Namespace}, command...)...); err != nil {
		return err
	}
	return n.rollOut(ctx)
}

func (n *Node) rollOut(ctx context.Context) error {
	_, err := n.Kubectl(ctx, "-n", Namespace, "rollout", "status", "ds/evictd", "--timeout="+eventually.Limit().String())
	if err != nil {
		logs, _ := n.Kubectl(context.WithoutCancel(ctx), "-n", Namespace, "logs", "ds/evictd", "--tail=20")
		pods, _ := n.Kubectl(context.WithoutCancel(ctx), "-n", Namespace, "describe", "pods")
		return fmt.Errorf("waiting for evictd to be ready: %w\n%s\n%s", err, logs, pods)
	}
	return nil
}

// Until polls a condition until it is met, for a benchmark whose wait has a limit of its
// own: [cluster.Patiently] that time. A test uses package eventually.
func Until(ctx context.Context, atMost time.Duration, met func(context.Context) bool) error {
	return wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, cluster.Patiently(atMost), true,
		func(ctx context.Context) (bool, error) { return met(ctx), nil })
}
