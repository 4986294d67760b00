package pressure

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/internal/filetree"
	"github.com/evictd/evictd/internal/kernelfile"
)

// system are the system calls that do not read a file below the host's root.
type system struct {
	statfs       func(path string) (filesystem, error)
	release      func() (string, error)
	pidNamespace func() (string, error)
}

// kernel is the system that evictd runs on.
func kernel() system {
	return system{statfs: statfs, release: release, pidNamespace: pidNamespace}
}

// filesystem is one reading of a filesystem, as the kubelet computes it.
type filesystem struct {
	device uint64 // as in stat(2)
	// available is what unprivileged users may still write, capacity all there is,
	// in bytes.
	available, capacity int64
	// inodesFree and inodes are 0 on a filesystem that does not count inodes.
	inodesFree, inodes int64
}

// statfs needs no right to read the directory, only to pass through its parents.
func statfs(path string) (filesystem, error) {
	var raw unix.Statfs_t
	var directory unix.Stat_t
	err := unix.Statfs(path, &raw)
	for errors.Is(err, unix.EINTR) {
		err = unix.Statfs(path, &raw)
	}
	if err == nil {
		err = unix.Stat(path, &directory)
	}
	if err != nil {
		return filesystem{}, err
	}
	read, err := parseStatfs(&raw)
	read.device = directory.Dev
	return read, err
}

// parseStatfs rejects values that no filesystem can have.
func parseStatfs(raw *unix.Statfs_t) (filesystem, error) {
	switch {
	case raw.Frsize <= 0:
		return filesystem{}, fmt.Errorf("the filesystem reports blocks of %d bytes", raw.Frsize)
	case raw.Blocks == 0:
		return filesystem{}, fmt.Errorf("the filesystem reports no blocks (type %#x)", raw.Type)
	case raw.Bavail > raw.Blocks || raw.Ffree > raw.Files:
		return filesystem{}, fmt.Errorf("the filesystem reports more free than there is: %d of %d blocks, %d of %d inodes",
			raw.Bavail, raw.Blocks, raw.Ffree, raw.Files)
	}
	over, capacity := bits.Mul64(raw.Blocks, uint64(raw.Frsize))
	if over > 0 || capacity > math.MaxInt64 || raw.Files > math.MaxInt64 {
		return filesystem{}, fmt.Errorf("the size of the filesystem: %w", kernelfile.ErrOverflow)
	}
	//nolint:gosec // none is larger than the capacity or all files
	return filesystem{
		available: int64(raw.Bavail) * raw.Frsize, capacity: int64(capacity),
		inodesFree: int64(raw.Ffree), inodes: int64(raw.Files),
	}, nil
}

// resolve returns the path at which evictd sees a directory of the host. It follows symbolic
// links as the host would: /var/lib/containerd may be a link to /data/containerd, which
// below a host root is another directory. It needs no right to read the directory.
func resolve(hostRoot, path string) (string, error) {
	fd, err := filetree.OpenInHost(filepath.Join("/", hostRoot), path, unix.O_PATH)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd) //nolint:errcheck // nothing was written
	return os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
}

func release() (string, error) {
	var raw unix.Utsname
	if err := unix.Uname(&raw); err != nil {
		return "", err
	}
	return unix.ByteSliceToString(raw.Release[:]), nil
}

func pidNamespace() (string, error) { return os.Readlink("/proc/self/ns/pid") }
