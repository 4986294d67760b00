package usage

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/internal/filetree"
)

// maxEntries limits how many emptyDirs, containers or logs a pod may have.
const maxEntries = 10_000

// errNone is a directory that was removed, or that is a mount: it is not counted.
var errNone = errors.New("there is no such directory, or it is a mount")

// inHost opens a directory as the host sees it.
func (d *NodeDisk) inHost(path string, flags int) (int, error) {
	fd, err := filetree.OpenInHost(d.hostRoot, path, flags|unix.O_DIRECTORY)
	if err != nil {
		return -1, d.explain(fmt.Errorf("opening the host's %s: %w", path, err))
	}
	return fd, nil
}

// explain adds to a fault how to fix it.
func (d *NodeDisk) explain(err error) error {
	switch {
	case errors.Is(err, unix.ENOSYS):
		return fmt.Errorf("%w; the kernel is older than Linux 5.6, and no disk can be measured below a --host-root", err)
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		return fmt.Errorf("%w; measuring on the node needs root and CAP_DAC_READ_SEARCH", err)
	case errors.Is(err, unix.ENOENT):
		return fmt.Errorf("%w; mount it below %s at the same path", err, d.hostRoot)
	default:
		return err
	}
}

// below opens a directory below one of the host's for reading. Links in base are followed, within the
// host; only the node's administrator can write there. In path no link is followed and no mount is
// entered.
func (d *NodeDisk) below(base, path string) (int, error) {
	dir, err := d.inHost(base, unix.O_PATH)
	if err != nil {
		return -1, err
	}
	defer unix.Close(dir) //nolint:errcheck // nothing was written
	fd, err := unix.Openat2(dir, path, &unix.OpenHow{
		Flags:   unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_XDEV,
	})
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.EXDEV):
		return -1, errNone
	case err != nil:
		return -1, fmt.Errorf("opening %q: %w", path, err)
	}
	return fd, nil
}

// list lists a directory below one of the host's, which only the kubelet or the runtime writes to. A
// missing directory, or a mount, has no entries: nil.
func (d *NodeDisk) list(base, path string) ([]os.DirEntry, error) {
	fd, err := d.below(base, path)
	if errors.Is(err, errNone) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(fd), path)
	defer file.Close() //nolint:errcheck // nothing was written
	return readAtMost(maxEntries, file)
}

// readAtMost lists an open directory. One with that many entries or more is a fault.
func readAtMost(most int, dir *os.File) ([]os.DirEntry, error) {
	entries, err := dir.ReadDir(most)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	if len(entries) == most {
		err = fmt.Errorf("listing %q: it has %d entries or more", dir.Name(), most)
	}
	return entries, err
}

// readlink reads a link below one of the host's directories.
func (d *NodeDisk) readlink(base, path string) (string, error) {
	parent, err := d.below(base, filepath.Dir(path))
	if err != nil {
		return "", err
	}
	defer unix.Close(parent) //nolint:errcheck // nothing was written
	target := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(parent, filepath.Base(path), target)
	if err != nil {
		return "", fmt.Errorf("reading the link %q: %w", path, err)
	}
	return string(target[:n]), nil
}

// DedicatedImageFS reports whether the runtime's images are currently on their own filesystem, which the kubelet's
// ranking by disk usage depends on. HostRoot is as for [OpenNodeDisk]. It compares device numbers, so two subvolumes
// of one btrfs count as two filesystems. It looks at each call, because mounts change, and blocks while one does
// not respond. An error means that one of the two cannot be read.
func DedicatedImageFS(hostRoot string) (bool, error) {
	l, err := (&NodeDisk{hostRoot: filepath.Join("/", hostRoot)}).layout()
	return len(l) > 1, err
}

// layout reads which device is which of the node's filesystems now.
func (d *NodeDisk) layout() (map[uint64]where, error) {
	node, err := d.device(filetree.KubeletDir)
	if err != nil {
		return nil, err
	}
	for _, dir := range filetree.ImageDirs() {
		if image, err := d.device(dir); !errors.Is(err, unix.ENOENT) {
			l := map[uint64]where{image: onImageFS}
			l[node] |= onNodeFS
			return l, err
		}
	}
	return map[uint64]where{node: onBoth}, nil
}

func (d *NodeDisk) device(dir string) (uint64, error) {
	fd, err := d.inHost(dir, unix.O_PATH)
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd) //nolint:errcheck // nothing was written
	var stat unix.Stat_t
	err = unix.Fstat(fd, &stat)
	return stat.Dev, err
}
