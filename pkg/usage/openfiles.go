package usage

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/internal/filetree"
)

// deletedMark is the kernel's suffix for the path of a file without a name (d_path).
const deletedMark = " (deleted)"

const (
	// maxDeleted limits how many deleted files of a pod are kept apart.
	maxDeleted = 1 << 16
	// maxDescriptors limits how many open files of a pod are read: half a second of CPU.
	maxDescriptors = 1 << 17
)

// inode is a file, whatever its name.
type inode struct{ device, number uint64 }

// deletedFiles adds up files without a name that a pod's processes have open.
type deletedFiles struct {
	// where says on which filesystems a device is, or why that is unknown.
	where  func(device uint64) (where, error)
	seen   map[inode]bool
	looked int    // number of descriptors read
	target []byte // of a link
	// The deleted files on each filesystem.
	nodeFS, imageFS FSUse
}

// lookForDeleted looks for the deleted files of each pod after its trees, whose devices are
// then known, in the remaining time.
func (d *NodeDisk) lookForDeleted(ctx context.Context, f *found) {
	name := func(pod int) string { return f.ordered[pod].UID }
	var indices []int
	for i := range f.pods {
		if len(f.pods[i].processes) > 0 {
			indices = append(indices, i)
		}
	}
	order(indices, d.turns, name)
	devices := f.devices()
	trees := make([]filetree.Tree, len(indices))
	// The workers may outlive this call, so they write to their own files.
	read := make([]deletedFiles, len(indices))
	for i, pod := range indices {
		read[i].where, read[i].seen = devices, map[inode]bool{}
		trees[i] = filetree.Tree{Name: name(pod), Start: read[i].start(d.proc, f.pods[pod].processes)}
	}
	counts, err := run(ctx, d.descriptors, trees, func(i int) { f.pods[indices[i]].deleted = read[i] })
	if err == nil {
		f.turns.note(trees, counts)
	}
	for i, pod := range indices {
		fault := err // without them the sums are the kubelet's
		if err == nil {
			fault = counts[i].Partial
		}
		f.pods[pod].noDeleted = cmp.Or(fault, f.pods[pod].noDeleted)
	}
}

// devices returns a function that says on which filesystems a device is. A container's root
// counts to the filesystem of its layer.
func (f *found) devices() func(device uint64) (where, error) {
	roots := map[uint64]*place{}
	for _, p := range f.places {
		if p.root != 0 {
			roots[p.root] = p
		}
	}
	return func(device uint64) (where, error) {
		layer, found := roots[device]
		switch {
		case !found:
			return f.layout.where(device), nil
		case layer.device == 0:
			return nowhere, errors.New("the filesystem of a writable layer is not known")
		default:
			return f.layout.where(layer.device), nil
		}
	}
}

// start returns the task that reads the files of processes on a worker. There is no tree.
func (d *deletedFiles) start(proc string, processes []int) filetree.Start {
	return func(t *filetree.Turn) (int, error) {
		d.target = make([]byte, unix.PathMax)
		for _, pid := range processes {
			if err := d.read(t.Breathe, proc, pid); err != nil {
				return -1, err
			}
		}
		return -1, filetree.ErrElsewhere
	}
}

// read adds the files of one process. It needs the right to inspect that process,
// CAP_SYS_PTRACE. An ended process has none.
func (d *deletedFiles) read(breathe func() error, proc string, pid int) error {
	const batch = 128
	dir := filepath.Join(proc, strconv.Itoa(pid), "fd")
	listing, err := os.Open(dir) //nolint:gosec // below the host's /proc
	if err != nil {
		return unlessEnded(err)
	}
	defer listing.Close() //nolint:errcheck // nothing was written
	for {
		if err := breathe(); err != nil {
			return unlessEnded(err)
		}
		names, err := listing.Readdirnames(batch)
		for _, name := range names {
			if fault := d.look(int(listing.Fd()), name); fault != nil {
				return unlessEnded(fault)
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return unlessEnded(err)
		}
	}
}

// unlessEnded ignores the error that the process, or the file, does not exist any more.
func unlessEnded(err error) error {
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ESRCH) {
		return nil
	}
	return fmt.Errorf("looking for deleted files that are open: %w", err)
}

// look adds an open file when it has no name and is on one of the node's filesystems. The
// text of the link, which accesses no filesystem, excludes nearly all other files: they may
// be on a filesystem that does not respond. The name of a file may look as if it was
// deleted; reading such a file then blocks one of several threads.
func (d *deletedFiles) look(dir int, name string) error {
	if d.looked++; d.looked > maxDescriptors {
		return fmt.Errorf("there are more than %d open ones", maxDescriptors)
	}
	n, err := unix.Readlinkat(dir, name, d.target)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return err
	}
	if !bytes.HasSuffix(d.target[:n], []byte(deletedMark)) {
		return nil
	}
	var file unix.Statx_t
	err = unix.Statx(dir, name, unix.AT_STATX_DONT_SYNC, unix.STATX_NLINK|unix.STATX_INO|unix.STATX_BLOCKS, &file)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
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
	on, err := d.where(it.device)
	if err != nil || on == nowhere {
		return err
	}
	if len(d.seen) >= maxDeleted {
		return fmt.Errorf("there are more than %d", maxDeleted)
	}
	d.seen[it] = true
	size := int64(file.Blocks) * blockSize //nolint:gosec // the blocks of one file
	if on&onNodeFS != 0 {
		d.nodeFS.add(size, 1)
	}
	if on&onImageFS != 0 {
		d.imageFS.add(size, 1)
	}
	return nil
}
