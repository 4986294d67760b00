package usage

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/internal/filetree"
)

const (
	// deletedMark is the kernel's suffix for the path of a file without a name (d_path).
	deletedMark = " (deleted)"
	// maxDeleted limits how many deleted files of a pod are kept apart.
	maxDeleted = 1 << 16
	// maxDescriptors limits how many open files of a process are read: half a second of CPU.
	maxDescriptors = 1 << 17
)

// inode is a file, whatever its name.
type inode struct{ device, number uint64 }

// deleted adds the files without a name that the pod's processes have open, after its trees, whose devices are
// then known. A running container has processes. Where none was found they are not visible from here, or the
// runtime names cgroups differently.
func (m *podDisk) deleted(turn *filetree.Turn) (err error) {
	m.gone = map[inode]bool{}
	hidden := m.unread && len(m.pod.Containers) > 0
	for _, container := range m.pod.Containers {
		pids := m.processes[container]
		hidden = hidden || len(pids) == 0
		for _, pid := range pids {
			if err == nil {
				err = unlessEnded(m.readOpen(turn, pid))
			}
		}
	}
	if hidden || err != nil {
		m.use.add(Deleted, onBoth, FSUse{})
	}
	return err
}

// readOpen adds the files of one process. It needs the right to inspect that process,
// CAP_SYS_PTRACE. An ended process has none.
func (m *podDisk) readOpen(turn *filetree.Turn, pid int) error {
	listing, err := os.Open(filepath.Join(m.disk.proc, strconv.Itoa(pid), "fd"))
	if err != nil {
		return err
	}
	defer listing.Close() //nolint:errcheck // nothing was written
	entries, err := readAtMost(maxDescriptors, listing)
	if err != nil {
		return err
	}
	target := make([]byte, unix.PathMax)
	for _, entry := range entries {
		if err := turn.Breathe(); err != nil {
			return err
		}
		if err := unlessEnded(m.lookAt(int(listing.Fd()), entry.Name(), target)); err != nil {
			return err
		}
	}
	return nil
}

// unlessEnded ignores the error that the process, or the file, does not exist any more.
func unlessEnded(err error) error {
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ESRCH) {
		return nil
	}
	return err
}

// lookAt adds an open file when it has no name and is on one of the node's filesystems. The
// text of the link, which accesses no filesystem, excludes nearly all other files: they may
// be on a filesystem that does not respond. The name of a file may look as if it was
// deleted; reading such a file then blocks one of several threads.
func (m *podDisk) lookAt(dir int, name string, target []byte) error {
	n, err := unix.Readlinkat(dir, name, target)
	if err != nil || !bytes.HasSuffix(target[:n], []byte(deletedMark)) {
		return err
	}
	var file unix.Statx_t
	if err := unix.Statx(dir, name, unix.AT_STATX_DONT_SYNC, unix.STATX_NLINK|unix.STATX_INO|unix.STATX_BLOCKS, &file); err != nil {
		return err
	}
	return m.addDeleted(&file)
}

func (m *podDisk) addDeleted(file *unix.Statx_t) error {
	const blockSize = 512
	it := inode{device: unix.Mkdev(file.Dev_major, file.Dev_minor), number: file.Ino}
	if file.Nlink > 0 || m.gone[it] {
		return nil
	}
	on := m.roots[it.device]
	if on == nowhere {
		return nil
	}
	if len(m.gone) >= maxDeleted {
		return fmt.Errorf("there are more than %d", maxDeleted)
	}
	m.gone[it] = true
	size := int64(file.Blocks) * blockSize //nolint:gosec // the blocks of one file
	m.use.add(Deleted, on, FSUse{Bytes: size, Inodes: 1, BytesKnown: true, InodesKnown: true})
	return nil
}
