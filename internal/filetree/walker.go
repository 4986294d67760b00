// Package filetree answers one question: what do the files below a directory take? It is for a
// privileged process that looks at directories in which others write.
//
//	pool := filetree.NewPool(0.2)
//	defer pool.Rest()
//	err := pool.Do(ctx, dir, func(t *filetree.Turn) error {
//		fd, err := open(dir)
//		if err == nil {
//			count = t.Count(fd, func(uint64) bool { return true })
//		}
//		return err
//	})
//
// It counts the allocated blocks and inodes of the start and of everything below it, and a file
// with several links once. It does not count other mounts and other filesystems, so a bind mount
// that leads back up ends where it begins.
//
// A process that writes in the tree cannot lead the walk out of it. Each directory is opened by one
// name, relative to the directory that holds it and that stays open, and neither through a symbolic link
// nor into a mount (openat2). A mount whose server is dead is never touched.
//
// Nor can such a process make the walk exceed its bounds. File descriptors, the names that are
// remembered and the inodes with several links are bounded. What lies beyond a bound is left out,
// and the count says that it is a lower bound and why. So does a count that ends with its context.
// A task whose filesystem does not respond holds one thread at most. In the steady state nothing is allocated for a file.
//
// [OpenInHost] opens a directory of the host from a container that has the host's root mounted.
//
// The package needs Linux 5.6, and read and search permission for every directory: as root of a
// container, CAP_DAC_READ_SEARCH.
package filetree

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// Bounds of what a walk may take, whatever the tree contains.
const (
	// listingSize holds about two thousand names.
	listingSize = 64 << 10
	// breath is how many files are looked at between two pauses.
	breath = 128
)

// bounds are what a walk may take: bytes of directories' names, directories that lie in each other, each
// of which is open, and inodes with several links.
type bounds struct{ names, depth, links int }

// ErrBounds makes a count partial: the tree has more, or deeper, directories or more links than are
// remembered.
var ErrBounds = errors.New("the tree is larger than is remembered of it")

// Count is what a tree takes.
type Count struct {
	// Bytes are those of allocated blocks; Inodes counts files and directories, the
	// start included. Both are lower bounds when Partial is set.
	Bytes, Inodes int64
	// Device is the start's, as in stat(2).
	Device uint64
	// Partial is the first reason why something is not counted; nil when everything is.
	Partial error
}

// Turn is the time that a worker has for one task, in which it counts one tree after the other. It is for one
// goroutine.
type Turn struct {
	ctx context.Context //nolint:containedctx // of the call that the worker carries out
	// open is openDirectory; a test puts a filesystem that hangs in its place.
	open func(dir int, name []byte, how *unix.OpenHow) (int, error)
	// pause keeps the walk within its share of the CPU.
	pause  func(ctx context.Context)
	bounds bounds

	how     unix.OpenHow
	empty   []byte
	listing []byte
	stat    unix.Statx_t

	count Count
	steps int

	depth int    // of the directory that is read; 1 for the start
	names []byte // of directories not entered yet, each with the NUL at its end
	links map[uint64]struct{}
}

// newTurn returns a turn that is not paced.
func newTurn() *Turn {
	return &Turn{
		open:   openDirectory,
		pause:  func(context.Context) {},
		bounds: bounds{names: 8 << 20, depth: 256, links: 1 << 18},
		how: unix.OpenHow{
			Flags:   openFlags,
			Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_XDEV,
		},
		empty:   []byte{0},
		listing: make([]byte, listingSize),
		links:   map[uint64]struct{}{},
	}
}

// Context ends with the time for the task.
func (t *Turn) Context() context.Context { return t.ctx }

// Count counts the tree of an open directory, and closes it. Of one on a device that is not wanted it counts the
// directory alone.
func (t *Turn) Count(start int, wanted func(device uint64) bool) Count {
	t.count, t.depth, t.names = Count{}, 0, t.names[:0] // steps go on: many small trees are paced as one large tree is
	if len(t.links) > 0 {
		t.links = map[uint64]struct{}{}
	}
	defer unix.Close(start) //nolint:errcheck // nothing was written
	if err := stat(start, t.empty, unix.AT_EMPTY_PATH|statFlags, &t.stat); err != nil {
		t.fault(err, start)
		return t.count
	}
	t.count.Device = t.device()
	if t.add(); wanted(t.count.Device) {
		t.read(start)
	}
	return t.count
}

// read counts what is below an open directory. The directories in a part of its listing are entered before it reads on.
func (t *Turn) read(dir int) {
	t.depth++
	first := len(t.names)
	for whole := false; !whole; {
		if err := t.ctx.Err(); err != nil {
			t.fault(err, -1)
			break
		}
		whole = t.readSome(dir)
		for len(t.names) > first && t.Breathe() == nil {
			at := bytes.LastIndexByte(t.names[:len(t.names)-1], 0) + 1
			name := t.names[at:]
			t.names = t.names[:at]
			t.enter(dir, name)
		}
	}
	t.depth--
}

// enter opens a directory. A directory that was removed or replaced meanwhile, or that is another
// mount, is no error.
func (t *Turn) enter(dir int, name []byte) {
	fd, err := t.open(dir, name, &t.how)
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.EXDEV):
		return
	case err != nil:
		if !errors.Is(err, unix.ENOTDIR) && !errors.Is(err, unix.ELOOP) { // else it was replaced
			t.fault(err, dir)
		}
		t.look(dir, name, unix.DT_REG) // that there is a directory is known
		return
	}
	defer unix.Close(fd) //nolint:errcheck // nothing was written
	if err = stat(fd, t.empty, unix.AT_EMPTY_PATH|statFlags, &t.stat); err != nil {
		t.fault(err, fd)
	} else if t.device() == t.count.Device { // no subvolume
		t.add()
		t.read(fd)
	}
}

// readSome looks at some of the files of a directory, and remembers the directories among
// them. It reports whether there are no more.
func (t *Turn) readSome(dir int) (whole bool) {
	n, err := unix.ReadDirent(dir, t.listing)
	if err != nil && !errors.Is(err, unix.EINTR) && !errors.Is(err, unix.ENOENT) { // ENOENT: it was removed
		t.fault(err, dir)
	}
	if n <= 0 {
		return !errors.Is(err, unix.EINTR)
	}
	for listing := t.listing[:n]; len(listing) > 0; {
		name, kind, rest, err := NextEntry(listing)
		if err != nil {
			t.fault(err, dir)
			return true
		}
		switch listing = rest; {
		case isDots(name):
		case kind == unix.DT_DIR:
			t.remember(dir, name)
		default:
			if t.look(dir, name, kind); t.Breathe() != nil {
				return false
			}
		}
	}
	return false
}

// Breathe is called for each of many things that a task looks at. Now and then it sleeps, when the worker is ahead
// of its share of the CPU. It returns an error when the time is up: on a slow disk a hundred files take longer
// than a task may be late.
func (t *Turn) Breathe() error {
	if t.steps++; t.steps%breath == 0 {
		t.pause(t.ctx)
	}
	return t.ctx.Err()
}

// remember notes a directory to enter later. Beyond the bounds only the directory
// itself is counted.
func (t *Turn) remember(dir int, name []byte) {
	if len(t.names)+len(name) > t.bounds.names || t.depth >= t.bounds.depth {
		t.fault(ErrBounds, dir)
		t.look(dir, name, unix.DT_REG)
		return
	}
	t.names = append(t.names, name...)
}

// look counts a file. When the filesystem does not report types, the file may be a directory.
func (t *Turn) look(dir int, name []byte, kind byte) {
	err := stat(dir, name, statFlags, &t.stat)
	directory := t.stat.Mode&unix.S_IFMT == unix.S_IFDIR
	switch {
	case errors.Is(err, unix.ENOENT):
	case err != nil:
		t.fault(err, dir)
	case t.device() != t.count.Device, t.stat.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0:
	case kind == unix.DT_UNKNOWN && directory:
		t.remember(dir, name)
	case directory, t.stat.Nlink <= 1, t.isFirst(t.stat.Ino, dir):
		t.add()
	}
}

// device returns the filesystem of what was looked at. What is on another one than the start is not counted.
func (t *Turn) device() uint64 { return unix.Mkdev(t.stat.Dev_major, t.stat.Dev_minor) }

// isFirst reports whether this link to an inode is the first one that is seen.
func (t *Turn) isFirst(inode uint64, dir int) bool {
	if _, seen := t.links[inode]; seen {
		return false
	}
	if len(t.links) >= t.bounds.links {
		t.fault(ErrBounds, dir)
		return false
	}
	t.links[inode] = struct{}{}
	return true
}

// add counts what was looked at. Blocks that no filesystem can have are left out.
func (t *Turn) add() {
	t.count.Inodes++
	if t.stat.Blocks > uint64(math.MaxInt64-t.count.Bytes)/blockSize { //nolint:gosec // never negative
		t.fault(fmt.Errorf("inode %d claims %d blocks", t.stat.Ino, t.stat.Blocks), -1)
		return
	}
	t.count.Bytes += int64(t.stat.Blocks) * blockSize //nolint:gosec // checked above
}

// fault notes that something is not counted; dir says where, -1 for nowhere.
func (t *Turn) fault(err error, dir int) {
	if t.count.Partial == nil && dir >= 0 {
		where := "a directory"
		if path, unknown := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", dir)); unknown == nil {
			where = strconv.Quote(path)
		}
		err = fmt.Errorf("reading %s: %w", where, err)
	}
	t.count.Partial = cmp.Or(t.count.Partial, err)
}
