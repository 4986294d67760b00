package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
)

// Disk is a small filesystem for the node's directories, in a file of the cluster's directory.
// It is ext4, with blocks of 4 KiB, none of which are reserved for root.
type Disk struct {
	// Size is its size in bytes. The images of the node use about 70 MiB of it.
	Size int64
	// Inodes is the number of files and directories that fit in it; 0 is mkfs.ext4's
	// default.
	Inodes int64
	// Images is the size of a second one, only for containerd's directory: the kubelet's
	// imagefs. 0 is none.
	Images int64
}

// The directories that may be on their own filesystems, in the cluster's directory, and the path
// of a filesystem's file.
const nodeFolder = "node"

func containerdFolder() string { return filepath.Join(nodeFolder, "containerd") }

func diskImage(folder string) string { return filepath.Base(folder) + ".ext4" }

// makeDisks creates the filesystems of the options.
func (c *Cluster) makeDisks(ctx context.Context, disk *Disk) error {
	if disk == nil {
		return nil
	}
	if err := c.makeDisk(ctx, nodeFolder, disk.Size, disk.Inodes); err != nil || disk.Images == 0 {
		return err
	}
	return c.makeDisk(ctx, containerdFolder(), disk.Images, 0)
}

// makeDisk creates a directory's filesystem, in a sparse file of its size.
func (c *Cluster) makeDisk(ctx context.Context, folder string, size, inodes int64) error {
	mkfs, err := findProgram("mkfs.ext4", "e2fsprogs")
	if err != nil {
		return err
	}
	image, err := os.OpenFile(c.path(diskImage(folder)), os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("making the node's disk: %w", err)
	}
	if err = errors.Join(image.Truncate(size), image.Close()); err != nil {
		return fmt.Errorf("making the node's disk: %w", err)
	}
	// All tables are written now: otherwise the kernel would do it during a test.
	arguments := []string{"-q", "-F", "-b", "4096", "-m", "0", "-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0"}
	if inodes > 0 {
		arguments = append(arguments, "-N", strconv.FormatInt(inodes, 10))
	}
	output, err := exec.CommandContext(ctx, mkfs, append(arguments, image.Name())...).CombinedOutput() //nolint:gosec // it was found above
	if err != nil {
		return fmt.Errorf("making the node's disk: %w: %s", err, lastLines(string(output), 5))
	}
	c.node.disks = append(c.node.disks, folder)
	return nil
}

// InNode returns a path of the node as any program sees it, without entering the node's
// mount namespace. The cluster has a node.
func (c *Cluster) InNode(path string) string {
	return filepath.Join(c.node.inside.path(), "root", path)
}

// DiskDir is the root of the node's own filesystem, as the node sees it. Files created there
// are the host's: neither the kubelet nor containerd knows of them.
func (c *Cluster) DiskDir() string { return c.path(nodeFolder) }

// ImagesDir is containerd's directory, as the node sees it: where images and writable layers
// are.
func (*Cluster) ImagesDir() string { return containerdRoot }
