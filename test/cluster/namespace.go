package cluster

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"
)

// bind mounts a directory of the cluster at the path of a standard node's directory.
type bind struct {
	source string
	target string
}

// onOwnThread runs f on a thread that ends with it, so that f may change the thread's mount
// namespace, which the children it starts inherit.
func onOwnThread(f func() error) error {
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() != unix.Getpid() {
			result <- f() // never unlocked: the runtime ends the thread
			return
		}
		// The first thread cannot end before the program does, and /proc/self shows its
		// namespace. Held here, it cannot be picked again.
		defer runtime.UnlockOSThread()
		result <- onOwnThread(f)
	}()
	return <-result
}

// inNewNamespace runs f in a new mount namespace in which the host looks like a standard
// node: the binds are mounted, and no mount propagates to the host. The mounts of prepare
// are there too, and may contain the sources of the binds. The namespace exists as long as a
// process that f started is in it.
func inNewNamespace(prepare func() error, binds []bind, f func() error) error {
	return onOwnThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
			return fmt.Errorf("making a mount namespace: %w", err)
		}
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			return fmt.Errorf("making the mounts private: %w", err)
		}
		if err := prepare(); err != nil {
			return err
		}
		copied := make(map[string]bool)
		for _, each := range binds {
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
		return f()
	})
}

// inNamespaceOf runs f in the mount namespace of a process.
func inNamespaceOf(pid int, f func() error) error {
	return onOwnThread(func() error {
		handle, err := os.Open(filepath.Join("/proc", strconv.Itoa(pid), "ns", "mnt"))
		if err != nil {
			return fmt.Errorf("opening the mount namespace: %w", err)
		}
		defer handle.Close() //nolint:errcheck // only read
		// A thread that shares its working directory with others must not change it.
		if err := unix.Unshare(unix.CLONE_FS); err != nil {
			return fmt.Errorf("leaving the common working directory: %w", err)
		}
		if err := unix.Setns(int(handle.Fd()), unix.CLONE_NEWNS); err != nil {
			return fmt.Errorf("entering the mount namespace: %w", err)
		}
		return f()
	})
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
