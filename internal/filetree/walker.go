package filetree

import (
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
	// maxOpen is how many directories are open at a time. Deeper ones close those
	// above them, and find the way back by "..".
	maxOpen = 64
	// keptNames and keptLinks are what is kept for the next walk.
	keptNames = 1 << 20
	keptLinks = 1 << 14
	// breath is how many files are looked at between two looks at the clock.
	breath = 128
)

// bounds are what a walk remembers at most: bytes of directories' names, directories
// that lie in each other, and inodes with several links.
type bounds struct{ names, depth, links int }

func defaultBounds() bounds {
	const names, depth, links = 8 << 20, 100_000, 1 << 18
	return bounds{names: names, depth: depth, links: links}
}

// Faults that make a count partial.
var (
	// ErrBounds is a tree with more, or deeper, directories or more links than are
	// remembered.
	ErrBounds = errors.New("the tree is larger than is remembered of it")
	// ErrMoved is a directory that was moved while the walk was below it.
	ErrMoved = errors.New("a directory was moved while it was walked")
)

// Count is what a tree takes.
type Count struct {
	// Bytes are those of allocated blocks; Inodes counts files and directories, the
	// start included. Both are lower bounds when Partial is set.
	Bytes, Inodes int64
	// Partial is why something is not counted; nil when everything is.
	Partial error
}

// walker counts one tree after the other. It is for one goroutine.
type walker struct {
	// open is openDirectory; a test puts a filesystem that hangs in its place.
	open func(dir int, name []byte, how *unix.OpenHow) (int, error)
	// pause keeps the walk within its share of the CPU; nil for none.
	pause  func(ctx context.Context)
	bounds bounds

	how     unix.OpenHow
	upwards unix.OpenHow
	empty   []byte
	parent  []byte
	listing []byte
	stat    unix.Statx_t

	count  Count
	faults int
	major  uint32
	minor  uint32
	steps  int

	frames  []frame
	closed  int      // frames [1, closed] have no descriptor
	pending []uint32 // where names begin, of directories not entered yet
	names   []byte
	links   map[uint64]struct{}
}

// frame is a directory between the start and where the walk is.
type frame struct {
	fd     int // -1 while it is closed
	inode  uint64
	cookie int64 // behind the last name that was read
	first  int   // in pending: the names from here on are in this directory
	whole  bool  // all names were read
}

func newWalker() *walker {
	return &walker{
		open:   openDirectory,
		bounds: defaultBounds(),
		how: unix.OpenHow{
			Flags:   openFlags,
			Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_XDEV,
		},
		upwards: unix.OpenHow{
			Flags:   openFlags,
			Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_XDEV,
		},
		empty:   emptyName(),
		parent:  parentName(),
		listing: make([]byte, listingSize),
		links:   map[uint64]struct{}{},
	}
}

// walk counts the tree of an open directory, and closes it.
func (w *walker) walk(ctx context.Context, start int) Count {
	w.reset()
	defer w.closeAll()
	w.push(start, 0)
	if err := stat(start, w.empty, unix.AT_EMPTY_PATH|statFlags, &w.stat); err != nil {
		w.fault(err, start)
		return w.result()
	}
	w.major, w.minor = w.stat.Dev_major, w.stat.Dev_minor
	w.frames[0].inode = w.stat.Ino
	w.add()
	for len(w.frames) > 0 {
		if err := ctx.Err(); err != nil {
			w.fault(err, -1)
			break
		}
		w.step(ctx)
	}
	return w.result()
}

func (w *walker) reset() {
	w.count, w.faults, w.closed = Count{}, 0, 0 // steps go on: many small trees are paced as one large tree is
	w.frames, w.pending = w.frames[:0], w.pending[:0]
	if cap(w.names) > keptNames {
		w.names = nil
	}
	w.names = w.names[:0]
	if len(w.links) > keptLinks {
		w.links = map[uint64]struct{}{}
	}
	clear(w.links)
}

func (w *walker) result() Count {
	if w.faults > 1 {
		w.count.Partial = fmt.Errorf("%w (and %d more)", w.count.Partial, w.faults-1)
	}
	return w.count
}

// step enters a directory that is known, or else reads on, or else goes up.
func (w *walker) step(ctx context.Context) {
	top := &w.frames[len(w.frames)-1]
	switch {
	case len(w.pending) > top.first:
		at := w.pending[len(w.pending)-1]
		w.pending = w.pending[:len(w.pending)-1]
		name := w.names[at:]
		w.names = w.names[:at]
		w.enter(top.fd, name)
		w.breathe(ctx)
	case !top.whole:
		w.read(ctx, top)
	default:
		w.leave()
	}
}

// enter opens a directory. A directory that was removed or replaced meanwhile, or that is another
// mount, is no error.
func (w *walker) enter(dir int, name []byte) {
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
	w.push(fd, w.stat.Ino)
}

// push makes an open directory the one to read, and closes the highest open one
// below the start when too many are open.
func (w *walker) push(fd int, inode uint64) {
	w.frames = append(w.frames, frame{fd: fd, inode: inode, first: len(w.pending)})
	if len(w.frames)-w.closed > maxOpen {
		w.closed++
		w.close(&w.frames[w.closed])
	}
}

func (w *walker) close(f *frame) {
	_ = unix.Close(f.fd) // nothing was written
	f.fd = -1
}

// leave goes up. A directory that was closed meanwhile is opened again from the one
// below it, if it is still the one above it.
func (w *walker) leave() {
	left := w.frames[len(w.frames)-1]
	w.frames = w.frames[:len(w.frames)-1]
	if up := len(w.frames) - 1; up > 0 && w.frames[up].fd < 0 {
		if err := w.reopen(&w.frames[up], left.fd); err != nil {
			w.fault(err, left.fd)
			w.abandon()
		} else {
			w.closed--
		}
	}
	_ = unix.Close(left.fd) // nothing was written
}

func (w *walker) reopen(f *frame, below int) error {
	fd, err := openDirectory(below, w.parent, &w.upwards)
	if err != nil {
		return err
	}
	err = stat(fd, w.empty, unix.AT_EMPTY_PATH|statFlags, &w.stat)
	if err == nil && (w.stat.Ino != f.inode || !w.same()) {
		err = ErrMoved
	}
	if err == nil && !f.whole {
		_, err = unix.Seek(fd, f.cookie, unix.SEEK_SET)
	}
	if err != nil {
		_ = unix.Close(fd) // nothing was written
		return err
	}
	f.fd = fd
	return nil
}

// abandon gives up all closed directories, which cannot be found again, and continues at the start.
func (w *walker) abandon() {
	lost := w.frames[1].first
	if lost < len(w.pending) {
		w.names = w.names[:w.pending[lost]]
		w.pending = w.pending[:lost]
	}
	w.frames = w.frames[:1]
	w.closed = 0
}

// read looks at some of the files of a directory, and remembers the directories among
// them.
func (w *walker) read(ctx context.Context, f *frame) {
	n, err := list(f.fd, w.listing)
	if err != nil {
		w.fault(err, f.fd)
	}
	f.whole = n == 0
	for listing := w.listing[:n]; len(listing) > 0; {
		var e Entry
		if e, listing, err = NextEntry(listing); err != nil {
			w.fault(err, f.fd)
			f.whole = true
			return
		}
		f.cookie = e.cookie
		if isDots(e.Name) {
			continue
		}
		if e.Kind == unix.DT_DIR {
			w.remember(f.fd, e.Name)
			continue
		}
		w.look(f.fd, e.Name, e.Kind)
		if !w.breathe(ctx) {
			return
		}
	}
}

// breathe pauses now and then, and reports whether the walk goes on.
func (w *walker) breathe(ctx context.Context) bool {
	if w.steps++; w.steps%breath != 0 {
		return true
	}
	if w.pause != nil {
		w.pause(ctx)
	}
	return ctx.Err() == nil
}

// remember notes a directory to enter later. Beyond the bounds only the directory
// itself is counted.
func (w *walker) remember(dir int, name []byte) {
	if len(w.names)+len(name) > w.bounds.names || len(w.frames) >= w.bounds.depth {
		w.fault(ErrBounds, dir)
		w.look(dir, name, unix.DT_REG)
		return
	}
	w.pending = append(w.pending, uint32(len(w.names))) //nolint:gosec // within the bounds
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
	if w.faults++; w.faults > 1 {
		return
	}
	w.count.Partial = err
	if dir >= 0 {
		w.count.Partial = fmt.Errorf("reading %s: %w", pathOf(dir), err)
	}
}

func (w *walker) closeAll() {
	for i := range w.frames {
		if w.frames[i].fd >= 0 {
			w.close(&w.frames[i])
		}
	}
	w.frames = w.frames[:0]
}
