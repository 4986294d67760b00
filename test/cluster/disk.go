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

// Disk is a small filesystem for the node's folders, in a file of the state folder.
// It is ext4, with blocks of 4 KiB, none of which are reserved for root.
type Disk struct {
	// Size is how large it is, in bytes. The images of the node take about 70 MiB of it.
	Size int64
	// Inodes is how many files and folders fit in it; 0 is mkfs.ext4's own choice.
	Inodes int64
}

// ErrNoMkfs says that mkfs.ext4 is not installed.
var ErrNoMkfs = errors.New("mkfs.ext4 is not installed; on Debian: apt-get install e2fsprogs")

// diskImage is the file of a node's own filesystem, in the state folder.
const diskImage = "node.ext4"

func findMkfs() (string, error) { return findProgram("mkfs.ext4", ErrNoMkfs) }

// makeDisk makes the filesystem, as large a file as it is but without its blocks.
func (c *Cluster) makeDisk(ctx context.Context, disk *Disk) error {
	if disk == nil {
		return nil
	}
	mkfs, err := findMkfs()
	if err != nil {
		return err
	}
	image, err := os.OpenFile(c.path(diskImage), os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("making the node's disk: %w", err)
	}
	if err = errors.Join(image.Truncate(disk.Size), image.Close()); err != nil {
		return fmt.Errorf("making the node's disk: %w", err)
	}
	// All tables are written now: the kernel would do it while a test looks.
	arguments := []string{"-q", "-F", "-b", "4096", "-m", "0", "-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0"}
	if disk.Inodes > 0 {
		arguments = append(arguments, "-N", strconv.FormatInt(disk.Inodes, 10))
	}
	output, err := exec.CommandContext(ctx, mkfs, append(arguments, image.Name())...).CombinedOutput() //nolint:gosec // findMkfs found it
	if err != nil {
		return fmt.Errorf("making the node's disk: %w: %s", err, lastLines(string(output), 5))
	}
	return c.update(func(s *state) { s.Disk = true })
}

// mountDisk mounts the filesystem over the node's folder, in the mount namespace of
// this thread. The loop device goes with the mount, and that with the namespace.
func (c *Cluster) mountDisk(read *state) error {
	if !read.Disk {
		return nil
	}
	target := c.path("node")
	if err := os.MkdirAll(target, 0o755); err != nil { //nolint:gosec // pods of any user look into it
		return fmt.Errorf("making a folder of the node: %w", err)
	}
	mount, err := findProgram("mount", errors.New("mount is not installed"))
	if err != nil {
		return err
	}
	// It writes nothing to /run/mount, which the machine has too.
	output, err := exec.Command(mount, "-n", "-t", "ext4", "-o", "loop", c.path(diskImage), target).CombinedOutput() //nolint:gosec,noctx // constants; it does not wait for anything
	if err != nil {
		return fmt.Errorf("mounting the node's disk: %w: %s", err, lastLines(string(output), 5))
	}
	return nil
}

// InNode returns a path of the node as this program sees it, without entering the
// node's mount namespace: by the root of one of its processes.
func (c *Cluster) InNode(path string) (string, error) {
	holder, _, err := c.find(namespaceName)
	if err != nil {
		return "", err
	}
	return filepath.Join("/proc", strconv.Itoa(holder.Process.PID), "root", path), nil
}

// DiskDir is the root of the node's own filesystem, as the node sees it. What is made
// there is the host's: neither the kubelet nor containerd knows of it.
func (c *Cluster) DiskDir() string { return c.path("node") }
