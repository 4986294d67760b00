package usage

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
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

// deletedFiles adds up files without a name that a pod's processes have open.
type deletedFiles struct {
	*podDisk // is only read: a worker may outlive the call
	seen     map[inode]bool
	target   []byte // of a link
	found    map[where]FSUse
}

// lookForDeleted looks for the deleted files of each pod after its trees, whose devices are
// then known, in the remaining time. Without them the sums are the kubelet's.
func (d *NodeDisk) lookForDeleted(ctx context.Context, counted []*podDisk, turns map[string]turn) {
	const prefix = "deleted files of "
	running := slices.DeleteFunc(slices.Clone(counted), func(m *podDisk) bool { return len(m.pids) == 0 })
	d.order(running, prefix)
	for i, m := range running {
		files := &deletedFiles{podDisk: m, seen: map[inode]bool{}, target: make([]byte, unix.PathMax), found: map[where]FSUse{}}
		end := do(ctx, d.descriptors, prefix+m.pod.UID, i+1 == len(running), files.readAll)
		turns[prefix+m.pod.UID] = turnOf(end)
		m.hidden = cmp.Or(m.hidden, end)
		if returned(end) {
			for on, deleted := range files.found {
				m.use.add(Deleted, on, deleted)
			}
		}
	}
	for _, m := range counted {
		if m.hidden != nil {
			m.use.add(Deleted, onBoth, FSUse{})
		}
	}
}

// readAll adds the files of the pod's processes.
func (d *deletedFiles) readAll(t *filetree.Turn) error {
	for _, pid := range d.pids {
		if err := unlessEnded(d.read(t.Breathe, pid)); err != nil {
			return fmt.Errorf("looking for deleted files that are open: %w", err)
		}
	}
	return nil
}

// read adds the files of one process. It needs the right to inspect that process,
// CAP_SYS_PTRACE. An ended process has none.
func (d *deletedFiles) read(breathe func() error, pid int) error {
	const batch = 128
	listing, err := os.Open(filepath.Join(d.disk.proc, strconv.Itoa(pid), "fd"))
	if err != nil {
		return err
	}
	defer listing.Close() //nolint:errcheck // nothing was written
	entries, err := readAtMost(maxDescriptors, listing)
	if err != nil {
		return err
	}
	for some := range slices.Chunk(entries, batch) {
		if err := breathe(); err != nil {
			return err
		}
		for _, entry := range some {
			if err := unlessEnded(d.look(int(listing.Fd()), entry.Name())); err != nil {
				return err
			}
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

// look adds an open file when it has no name and is on one of the node's filesystems. The
// text of the link, which accesses no filesystem, excludes nearly all other files: they may
// be on a filesystem that does not respond. The name of a file may look as if it was
// deleted; reading such a file then blocks one of several threads.
func (d *deletedFiles) look(dir int, name string) error {
	n, err := unix.Readlinkat(dir, name, d.target)
	if err != nil || !bytes.HasSuffix(d.target[:n], []byte(deletedMark)) {
		return err
	}
	var file unix.Statx_t
	if err := unix.Statx(dir, name, unix.AT_STATX_DONT_SYNC, unix.STATX_NLINK|unix.STATX_INO|unix.STATX_BLOCKS, &file); err != nil {
		return err
	}
	return d.add(&file)
}

func (d *deletedFiles) add(file *unix.Statx_t) error {
	const blockSize = 512
	it := inode{device: unix.Mkdev(file.Dev_major, file.Dev_minor), number: file.Ino}
	if file.Nlink > 0 || d.seen[it] {
		return nil
	}
	on, isRoot := d.roots[it.device] // a container's root counts to the filesystem of its layer
	if !isRoot {
		on = d.layout.where(it.device)
	}
	if on == nowhere {
		return nil
	}
	if len(d.seen) >= maxDeleted {
		return fmt.Errorf("there are more than %d", maxDeleted)
	}
	d.seen[it] = true
	size := int64(file.Blocks) * blockSize //nolint:gosec // the blocks of one file
	sum := d.found[on]
	d.found[on] = FSUse{Bytes: sum.Bytes + size, Inodes: sum.Inodes + 1, BytesKnown: true, InodesKnown: true}
	return nil
}
