package filetree

import (
	"path/filepath"

	"golang.org/x/sys/unix"
)

// KubeletDir is the kubelet's root directory on the host, whose filesystem is nodefs.
const KubeletDir = "/var/lib/kubelet"

// ImageDirs are the directories where containerd, CRI-O and Docker keep their images on the host. The
// filesystem of the first that exists is imagefs; where none exists, imagefs is nodefs.
func ImageDirs() []string {
	return []string{"/var/lib/containerd", "/var/lib/containers/storage", "/var/lib/docker"}
}

// OpenInHost opens a path as the host sees it, whose root is mounted at a directory: a link to /data leads to
// /data of the host. Flags are those of open(2). Below another root than / it needs openat2 (Linux 5.6).
func OpenInHost(root, path string, flags int) (int, error) {
	if root == "/" {
		return unix.Open(path, flags|unix.O_CLOEXEC, 0)
	}
	dir, err := unix.Open(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	defer unix.Close(dir) //nolint:errcheck // nothing was written
	return unix.Openat2(dir, filepath.Join(".", path), &unix.OpenHow{
		Flags:   uint64(flags | unix.O_CLOEXEC), //nolint:gosec // flags
		Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS,
	})
}
