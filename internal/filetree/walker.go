package filetree

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"

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
	// Partial is the first reason why something is not counted; nil when everything is.
	Partial error
}

// walker counts one tree after the other. It is for one goroutine.
type walker struct {
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
	major uint32
	minor uint32
	steps int

	depth int    // of the directory that is read; 1 for the start
	names []byte // of directories not entered yet, each with the NUL at its end
	links map[uint64]struct{}
}

// newWalker returns a walker that is not paced.
func newWalker() *walker {
	return &walker{
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

// walk counts the tree of an open directory, and closes it.
func (w *walker) walk(ctx context.Context, start int) Count {
	w.count, w.depth, w.names = Count{}, 0, w.names[:0] // steps go on: many small trees are paced as one large tree is
	if len(w.links) > 0 {
		w.links = map[uint64]struct{}{}
	}
	if err := stat(start, w.empty, unix.AT_EMPTY_PATH|statFlags, &w.stat); err != nil {
		w.fault(err, start)
		_ = unix.Close(start) // nothing was written
		return w.count
	}
	w.major, w.minor = w.stat.Dev_major, w.stat.Dev_minor
	w.add()
	w.read(ctx, start)
	return w.count
}

// read counts what is below an open directory, and closes it. The directories in a part of its listing are entered
// before it reads on.
func (w *walker) read(ctx context.Context, dir int) {
	defer unix.Close(dir) //nolint:errcheck // nothing was written
	w.depth++
	first := len(w.names)
	for whole := false; !whole; {
		if err := ctx.Err(); err != nil {
			w.fault(err, -1)
			break
		}
		whole = w.readSome(ctx, dir)
		for len(w.names) > first && ctx.Err() == nil {
			w.breathe(ctx)
			at := bytes.LastIndexByte(w.names[:len(w.names)-1], 0) + 1
			name := w.names[at:]
			w.names = w.names[:at]
			w.enter(ctx, dir, name)
		}
	}
	w.depth--
}

// enter opens a directory. A directory that was removed or replaced meanwhile, or that is another
// mount, is no error.
func (w *walker) enter(ctx context.Context, dir int, name []byte) {
	fd, err := w.open(dir, name, &w.how)
	switch {
	case err == nil:
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.EXDEV):
		return
	case errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP):
		w.look(dir, name, unix.DT_REG)
		return
	default:
		w.fault(err, dir)
		w.look(dir, name, unix.DT_REG) // that there is a directory is known
		return
	}
	if err := stat(fd, w.empty, unix.AT_EMPTY_PATH|statFlags, &w.stat); err != nil {
		w.fault(err, fd)
		_ = unix.Close(fd) // nothing was written
		return
	}
	if !w.same() { // a subvolume
		_ = unix.Close(fd) // nothing was written
		return
	}
	w.add()
	w.read(ctx, fd)
}

// readSome looks at some of the files of a directory, and remembers the directories among
// them. It reports whether there are no more.
func (w *walker) readSome(ctx context.Context, dir int) (whole bool) {
	n, err := unix.ReadDirent(dir, w.listing)
	if err != nil && !errors.Is(err, unix.EINTR) && !errors.Is(err, unix.ENOENT) { // ENOENT: it was removed
		w.fault(err, dir)
	}
	if n <= 0 {
		return !errors.Is(err, unix.EINTR)
	}
	for listing := w.listing[:n]; len(listing) > 0; {
		var e Entry
		if e, listing, err = NextEntry(listing); err != nil {
			w.fault(err, dir)
			return true
		}
		if isDots(e.Name) {
			continue
		}
		if e.Kind == unix.DT_DIR {
			w.remember(dir, e.Name)
			continue
		}
		w.look(dir, e.Name, e.Kind)
		if !w.breathe(ctx) {
			return false
		}
	}
	return false
}

// breathe pauses now and then, and reports whether the walk goes on: on a slow disk a hundred files take longer than
// a task may be late.
func (w *walker) breathe(ctx context.Context) bool {
	if w.steps++; w.steps%breath == 0 {
		w.pause(ctx)
	}
	return ctx.Err() == nil
}

// remember notes a directory to enter later. Beyond the bounds only the directory
// itself is counted.
func (w *walker) remember(dir int, name []byte) {
	if len(w.names)+len(name) > w.bounds.names || w.depth >= w.bounds.depth {
		w.fault(ErrBounds, dir)
		w.look(dir, name, unix.DT_REG)
		return
	}
	w.names = append(w.names, name...)
}

// look counts a file. When the filesystem does not report types, the file may be a directory.
func (w *walker) look(dir int, name []byte, kind byte) {
	err := stat(dir, name, statFlags, &w.stat)
	if errors.Is(err, unix.ENOENT) {
		return
	}
	if err != nil {
		w.fault(err, dir)
		return
	}
	if !w.same() || w.stat.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0 {
		return
	}
	directory := w.stat.Mode&unix.S_IFMT == unix.S_IFDIR
	if kind == unix.DT_UNKNOWN && directory {
		w.remember(dir, name)
		return
	}
	if w.stat.Nlink > 1 && !directory && !w.isFirst(w.stat.Ino, dir) {
		return
	}
	w.add()
}

// same reports whether what was looked at is on the filesystem of the start.
func (w *walker) same() bool { return w.stat.Dev_major == w.major && w.stat.Dev_minor == w.minor }

// isFirst reports whether this link to an inode is the first one that is seen.
func (w *walker) isFirst(inode uint64, dir int) bool {
	if _, seen := w.links[inode]; seen {
		return false
	}
	if len(w.links) >= w.bounds.links {
		w.fault(ErrBounds, dir)
		return false
	}
	w.links[inode] = struct{}{}
	return true
}

// add counts what was looked at. Blocks that no filesystem can have are left out.
func (w *walker) add() {
	w.count.Inodes++
	if w.stat.Blocks > uint64(math.MaxInt64-w.count.Bytes)/blockSize { //nolint:gosec // never negative
		w.fault(fmt.Errorf("inode %d claims %d blocks", w.stat.Ino, w.stat.Blocks), -1)
		return
	}
	w.count.Bytes += int64(w.stat.Blocks) * blockSize //nolint:gosec // checked above
}

// fault notes that something is not counted; dir says where, -1 for nowhere.
func (w *walker) fault(err error, dir int) {
	if w.count.Partial == nil && dir >= 0 {
		err = fmt.Errorf("reading %s: %w", pathOf(dir), err)
	}
	w.count.Partial = cmp.Or(w.count.Partial, err)
}
