package usage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// deletedMark is what the kernel puts behind the name of a file that has none any
// more (d_path).
const deletedMark = " (deleted)"

// maxDeleted is how many deleted files of a pod are told apart.
const maxDeleted = 1 << 16

// inode is a file, whatever its name.
type inode struct{ device, number uint64 }

// deletedFiles adds up files without a name that a pod's processes have open.
type deletedFiles struct {
	// where says on which filesystems a device is.
	where func(device uint64) where
	seen  map[inode]bool
	// all of them, and those on each filesystem.
	all, nodeFS, imageFS FSUse
}

// read adds the files of one process. It needs the right to look into that process,
// CAP_SYS_PTRACE. A process that has ended has none.
func (d *deletedFiles) read(ctx context.Context, proc string, pid int) error {
	const batch = 1024
	dir := filepath.Join(proc, strconv.Itoa(pid), "fd")
	listing, err := os.Open(dir) //nolint:gosec // below the host's /proc
	if err != nil {
		return unlessEnded(err)
	}
	defer listing.Close() //nolint:errcheck // nothing was written
	for {
		names, err := listing.Readdirnames(batch)
		for _, name := range names {
			if fault := d.look(int(listing.Fd()), name); fault != nil {
				return unlessEnded(fault)
			}
		}
		if err == nil {
			err = ctx.Err()
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return unlessEnded(err)
		}
	}
}

// unlessEnded leaves out that the process, or the file, is there no more.
func unlessEnded(err error) error {
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ESRCH) {
		return nil
	}
	return fmt.Errorf("looking for deleted files that are open: %w", err)
}

// look adds an open file when it has no name and is on one of the node's filesystems.
// By the text of the link, which asks no filesystem, all others are left alone: they
// may be on one that is dead.
func (d *deletedFiles) look(dir int, name string) error {
	target := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(dir, name, target)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return err
	}
	if !strings.HasSuffix(string(target[:n]), deletedMark) {
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
	on := d.where(it.device)
	if file.Nlink > 0 || on == nowhere || d.seen[it] {
		return nil
	}
	if len(d.seen) >= maxDeleted {
		return fmt.Errorf("there are more than %d", maxDeleted)
	}
	d.seen[it] = true
	bytes := int64(file.Blocks) * blockSize //nolint:gosec // the blocks of one file
	d.all.add(bytes, 1)
	if on&onNodeFS != 0 {
		d.nodeFS.add(bytes, 1)
	}
	if on&onImageFS != 0 {
		d.imageFS.add(bytes, 1)
	}
	return nil
}
