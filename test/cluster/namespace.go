package cluster

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// bind mounts a directory of the cluster at the path of a standard node's directory.
type bind struct {
	source string
	target string
}

// enterNode moves this thread into a new mount namespace in which the host looks like a standard
// node: its disks and binds are mounted, and no mount propagates to the host.
func (c *Cluster) enterNode() error {
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("making a mount namespace: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("making the mounts private: %w", err)
	}
	// The loop devices are removed with the mounts, and these with the namespace.
	for _, folder := range c.node.disks {
		if err := mountDisk(c.path(diskImage(folder)), c.path(folder)); err != nil {
			return err
		}
	}
	copied := make(map[string]bool)
	for _, each := range c.nodeBinds() {
		if err := os.MkdirAll(each.source, 0o755); err != nil { //nolint:gosec // pods of any user look into it
			return fmt.Errorf("making a folder of the node: %w", err)
		}
		if err := makeMountPoint(each.target, copied); err != nil {
			return err
		}
		if err := unix.Mount(each.source, each.target, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("mounting %s: %w", each.target, err)
		}
	}
	// Shared only among this namespace and the containers', as on a node set up by
	// systemd: volumes may use HostToContainer propagation.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SHARED, ""); err != nil {
		return fmt.Errorf("making the mounts shared: %w", err)
	}
	return nil
}

// makeMountPoint creates a directory that the host lacks, in this namespace only: it mounts
// an empty filesystem over the parent, and binds the parent's content into it.
func makeMountPoint(target string, copied map[string]bool) error {
	if info, err := os.Stat(target); err == nil && info.IsDir() {
		return nil
	}
	parent := filepath.Dir(target)
	if !copied[parent] {
		if err := overlayWithBinds(parent); err != nil {
			return fmt.Errorf("making room in %s: %w", parent, err)
		}
		copied[parent] = true
	}
	if err := os.Mkdir(target, 0o755); err != nil { //nolint:gosec // the mode of the real one
		return fmt.Errorf("making mount point: %w", err)
	}
	return nil
}

func overlayWithBinds(dir string) error {
	original, err := os.Open(dir) //nolint:gosec // one of a few constants
	if err != nil {
		return err
	}
	defer original.Close() //nolint:errcheck // only read
	info, err := original.Stat()
	if err != nil {
		return err
	}
	entries, err := original.ReadDir(-1)
	if err != nil {
		return err
	}
	if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0"+strconv.FormatUint(uint64(info.Mode().Perm()), 8)); err != nil {
		return fmt.Errorf("mounting an empty filesystem: %w", err)
	}
	// The path through the descriptor leads below the new mount.
	below := filepath.Join("/proc/thread-self/fd", strconv.Itoa(int(original.Fd())))
	for _, entry := range entries {
		if err := bindEntry(below, dir, entry); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("binding %s: %w", entry.Name(), err)
		}
	}
	return nil
}

func bindEntry(below, dir string, entry os.DirEntry) error {
	source, target := filepath.Join(below, entry.Name()), filepath.Join(dir, entry.Name())
	switch {
	case entry.Type()&os.ModeSymlink != 0:
		link, err := os.Readlink(source)
		if err != nil {
			return err
		}
		return os.Symlink(link, target)
	case entry.IsDir():
		if err := os.Mkdir(target, 0o700); err != nil {
			return err
		}
	default:
		if err := os.WriteFile(target, nil, 0o600); err != nil {
			return err
		}
	}
	return unix.Mount(source, target, "", unix.MS_BIND|unix.MS_REC, "")
}
