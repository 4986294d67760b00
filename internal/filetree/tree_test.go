package filetree

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/internal/testing/must"
)

// start opens a directory to walk.
func start(tb testing.TB, dir string) int {
	tb.Helper()
	fd, err := unix.Open(dir, openFlags, 0)
	must.Succeed(tb, err)
	return fd
}

// walk counts a tree, and ends with the context.
func walk(ctx context.Context, w *Turn, start int) Count {
	w.ctx = ctx
	return w.Count(start, func(uint64) bool { return true })
}

// put writes a file of a size, which takes blocks.
func put(tb testing.TB, path string, size int) {
	tb.Helper()
	must.Succeed(tb, os.MkdirAll(filepath.Dir(path), 0o755))
	must.Succeed(tb, os.WriteFile(path, make([]byte, size), 0o600))
}

// tree is a directory that a test plants.
type tree struct {
	testing.TB

	root string
}

func (d tree) at(name string) string { return filepath.Join(d.root, name) }

func (d tree) put(name string, size int) {
	d.Helper()
	put(d, d.at(name), size)
}

// expected counts a tree in the plainest way there is.
func expected(tb testing.TB, root string) Count {
	tb.Helper()
	var want Count
	links := map[uint64]bool{}
	must.Succeed(tb, filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		var stat unix.Stat_t
		if err := unix.Lstat(path, &stat); err != nil {
			return err
		}
		directory := stat.Mode&unix.S_IFMT == unix.S_IFDIR
		if stat.Nlink > 1 && !directory && links[stat.Ino] {
			return nil
		}
		links[stat.Ino] = true
		if path == root {
			want.Device = stat.Dev
		}
		want.Inodes++
		want.Bytes += stat.Blocks * blockSize
		return nil
	}))
	return want
}

// same compares two counts, and requires a complete one.
func same(tb testing.TB, got, want Count) {
	tb.Helper()
	if got.Partial != nil {
		tb.Errorf("the count is partial: %v", got.Partial)
	}
	if got.Bytes != want.Bytes || got.Inodes != want.Inodes {
		tb.Errorf("counted %d bytes, %d inodes; want %d, %d", got.Bytes, got.Inodes, want.Bytes, want.Inodes)
	}
}

func TestWalkCountsWhatIsThere(t *testing.T) {
	t.Parallel()
	for name, plant := range map[string]func(in tree){
		"nothing": func(tree) {},
		"files": func(in tree) {
			for _, size := range []int{0, 1, 4096, 4097, 1 << 20} {
				in.put("a/"+strconv.Itoa(size), size)
			}
		},
		"a file with holes takes what is allocated": func(in tree) {
			in.put("holes", 4096)
			must.Succeed(in, os.Truncate(in.at("holes"), 1<<40))
		},
		"hard links once": func(in tree) {
			in.put("a/one", 1<<20)
			in.put("b/other", 1)
			for _, name := range []string{"a/two", "b/three", "b/four"} {
				must.Succeed(in, os.Link(in.at("a/one"), in.at(name)))
			}
		},
		"names of any bytes": func(in tree) {
			for _, name := range []string{
				"new\nline", "not UTF-8 \xff\xfe\x80", " ", "...", ".hidden", "\x01\x1b[2J", "%s%n", strings.Repeat("x", 255),
			} {
				in.put(filepath.Join(name, name), 5000)
			}
		},
		"neither links nor devices are followed": func(in tree) {
			in.put("file", 1)
			for name, target := range map[string]string{
				"out": "/", "up": "..", "self": ".", "gone": "nowhere", "long": strings.Repeat("y", 200),
			} {
				must.Succeed(in, os.Symlink(target, in.at(name)))
			}
			must.Succeed(in, unix.Mkfifo(in.at("pipe"), 0o600))
		},
		"as deep as it may be": func(in tree) { // all of these directories are open
			for at, depth := ".", 0; depth < newTurn().bounds.depth-1; at, depth = at+"/m", depth+1 {
				in.put(at+"/z/file", 1)
				for i := range 10 { // more than what is listed at a time
					in.put(at+"/"+strconv.Itoa(i), 0)
				}
			}
		},
		"wide": func(in tree) {
			for i := range 5000 {
				if name := strings.Repeat("wide", 10) + strconv.Itoa(i); i%10 == 0 {
					must.Succeed(in, os.Mkdir(in.at(name), 0o700))
				} else {
					in.put(name, i%2)
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			plant(tree{t, root})
			want := expected(t, root)
			w := newTurn()
			for range 2 { // the second time with what the first one left behind
				same(t, walk(t.Context(), w, start(t, root)), want)
			}
			w.listing = make([]byte, 288) // a name of 255 bytes at a time, or a few short ones
			same(t, walk(t.Context(), w, start(t, root)), want)
		})
	}
}

// A tree on a device that is not wanted is not walked: only its start is counted.
func TestWalkPassesOverOtherDevices(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	put(t, filepath.Join(root, "a/file"), 5000)
	w := newTurn()
	w.ctx = t.Context()
	if got := w.Count(start(t, root), func(uint64) bool { return false }); got.Inodes != 1 || got.Device == 0 || got.Partial != nil {
		t.Errorf("counted %+v", got)
	}
}

// TestWalkWhileItChanges: a process that writes in the tree changes it just before a directory is opened. What is removed
// is neither counted nor a fault, and nothing leads the walk out of the tree. The count is one that was true at some
// moment.
func TestWalkWhileItChanges(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		at     string // before this directory is entered; "" is the first one
		change func(in tree, outside string) error
		after  bool // what counts is what is there afterwards
	}{
		"a link in a directory's place": {"dir", func(in tree, outside string) error {
			return errors.Join(os.RemoveAll(in.at("dir")), os.Symlink(outside, in.at("dir")))
		}, true},
		"a file in a directory's place": {"dir", func(in tree, _ string) error {
			return errors.Join(os.RemoveAll(in.at("dir")), os.WriteFile(in.at("dir"), make([]byte, 1<<16), 0o600))
		}, true},
		"removed, with one that is known already": {"", func(in tree, _ string) error {
			return errors.Join(os.RemoveAll(in.at("dir")), os.RemoveAll(in.at("other")))
		}, true},
		// What was in the tree counts, and nothing beside where it is now.
		"moved while it is walked": {"last", func(in tree, outside string) error {
			return os.Rename(in.at("dir"), filepath.Join(outside, "moved"))
		}, false},
		"a file grows": {"last", func(in tree, _ string) error {
			file, err := os.OpenFile(in.at("dir/m/last/file"), os.O_APPEND|os.O_WRONLY, 0)
			must.Succeed(in, err)
			_, err = file.Write(make([]byte, 1<<20))
			return errors.Join(err, file.Sync(), file.Close()) // blocks are allocated late
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in, outside := tree{t, t.TempDir()}, t.TempDir()
			put(t, filepath.Join(outside, "secret"), 1<<20)
			for _, file := range []string{"inside", "dir/m/last/file", "other/file"} {
				in.put(file, 4096)
			}
			want, changed := expected(t, in.root), false
			w := newTurn()
			w.open = func(dir int, name []byte, how *unix.OpenHow) (int, error) {
				if !changed && (test.at == "" || string(name) == test.at+"\x00") {
					must.Succeed(t, test.change(in, outside))
					changed = true
				}
				if changed && test.after {
					want = expected(t, in.root)
				}
				return openDirectory(dir, name, how)
			}
			same(t, walk(t.Context(), w, start(t, in.root)), want)
		})
	}
}

// TestWalkRemovedWhileInside: the directory that is being read is removed with everything in it.
func TestWalkRemovedWhileInside(t *testing.T) {
	t.Parallel()
	in := tree{t, t.TempDir()}
	in.put("stays", 1)
	for i := range 1000 {
		in.put("goes/"+strconv.Itoa(i), 1)
	}
	w := newTurn()
	w.listing = make([]byte, 4096)
	w.pause = func(context.Context) { must.Succeed(t, os.RemoveAll(in.at("goes"))) }
	got := walk(t.Context(), w, start(t, in.root))
	if got.Partial != nil || got.Inodes < breath || got.Inodes > 1000 {
		t.Errorf("counted %+v, want some of a thousand files", got)
	}
}

func TestWalkEndsWithItsContext(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for i := range 2000 {
		put(t, filepath.Join(root, "d"+strconv.Itoa(i%10), strconv.Itoa(i)), 1)
	}
	for _, rounds := range []int{0, 1, 7} {
		ctx, cancel := context.WithCancel(t.Context())
		w := newTurn()
		left := rounds
		w.pause = func(context.Context) {
			if left--; left <= 0 {
				cancel()
			}
		}
		if rounds == 0 {
			cancel()
		}
		got := walk(ctx, w, start(t, root))
		cancel()
		if !errors.Is(got.Partial, context.Canceled) {
			t.Errorf("after %d pauses: partial: %v, want %v", rounds, got.Partial, context.Canceled)
		}
		if low, high := int64(max(1, rounds*breath-20)), int64(1+rounds*breath); got.Inodes < low || got.Inodes > high {
			t.Errorf("after %d pauses: counted %d inodes, want %d to %d", rounds, got.Inodes, low, high)
		}
	}
}

func TestWalkKeepsItsBounds(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for i := range 10 {
		put(t, filepath.Join(root, "dirs", "dir"+strconv.Itoa(i), "file"), 1)
		file := filepath.Join(root, strconv.Itoa(i)) // beside dirs is no other directory: the order in which a filesystem lists does not matter
		put(t, file, 4096)
		must.Succeed(t, os.Link(file, file+"again"))
	}
	all := expected(t, root)
	for name, tc := range map[string]struct {
		bounds bounds
		inodes int64 // that are not counted
	}{
		"names": {bounds{names: 5 * len("dirN\x00"), depth: 100, links: 100}, 5},
		"depth": {bounds{names: 1 << 10, depth: 2, links: 100}, 10},
		"links": {bounds{names: 1 << 10, depth: 100, links: 7}, 3},
	} {
		w := newTurn()
		w.bounds = tc.bounds
		got := walk(t.Context(), w, start(t, root))
		if !errors.Is(got.Partial, ErrBounds) || got.Inodes != all.Inodes-tc.inodes {
			t.Errorf("%s: counted %d inodes, partial: %v; want %d and %v", name, got.Inodes, got.Partial, all.Inodes-tc.inodes, ErrBounds)
		}
	}
}

// TestWalkWithoutTypes: a filesystem may leave the type of an entry open.
func TestWalkWithoutTypes(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	put(t, filepath.Join(root, "dir", "file"), 1)
	w := newTurn()
	fd := start(t, root)
	defer unix.Close(fd)
	must.Succeed(t, stat(fd, w.empty, unix.AT_EMPTY_PATH|statFlags, &w.stat))
	w.count.Device = w.device()
	w.look(fd, []byte("dir\x00"), unix.DT_UNKNOWN)
	if w.count.Inodes != 0 || string(w.names) != "dir\x00" {
		t.Errorf("counted %d, remembered %q; want 0 and the directory", w.count.Inodes, w.names)
	}
	w.look(start(t, filepath.Join(root, "dir")), []byte("file\x00"), unix.DT_UNKNOWN)
	if w.count.Inodes != 1 {
		t.Errorf("counted %d, want the file", w.count.Inodes)
	}
}

// TestWalkWithoutPermission: what may not be read makes the count partial, and names
// the directory. It runs on a thread that has lost its rights.
func TestWalkWithoutPermission(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	put(t, filepath.Join(root, "open", "file"), 1)
	put(t, filepath.Join(root, "locked\n", "file"), 1)
	put(t, filepath.Join(root, "blind", "file"), 1)
	all := expected(t, root)
	must.Succeed(t, os.Chmod(root, 0o755), os.Chmod(filepath.Join(root, "locked\n"), 0), os.Chmod(filepath.Join(root, "blind"), 0o444))
	t.Cleanup(func() {
		_ = errors.Join(os.Chmod(filepath.Join(root, "locked\n"), 0o700), os.Chmod(filepath.Join(root, "blind"), 0o700))
	})
	counts, fd := make(chan Count), start(t, root)
	go func() {
		runtime.LockOSThread() // and never unlock it: the thread ends with its rights
		if os.Geteuid() == 0 {
			if err := unix.Setfsuid(65534); err != nil {
				t.Error(err)
			}
		}
		counts <- walk(t.Context(), newTurn(), fd)
	}()
	got := <-counts
	if !errors.Is(got.Partial, unix.EACCES) || got.Inodes != all.Inodes-2 {
		t.Errorf("counted %d inodes, partial: %v; want %d and EACCES", got.Inodes, got.Partial, all.Inodes-2)
	}
	if got.Partial != nil && (!strings.Contains(got.Partial.Error(), filepath.Base(root)) || strings.Contains(got.Partial.Error(), "\n")) {
		t.Errorf("the fault is %q, want one line that names the directory", got.Partial)
	}
}

// TestWalkAllocatesNothing for a file, once its buffers have grown.
func TestWalkAllocatesNothing(t *testing.T) {
	root := t.TempDir()
	for i := range 3000 {
		put(t, filepath.Join(root, "d"+strconv.Itoa(i%30), strconv.Itoa(i)), 0)
	}
	w := newTurn()
	again := func() { walk(t.Context(), w, start(t, root)) }
	again()
	if got := testing.AllocsPerRun(5, again); got > 3+2*30 { // the path and what opens the start, and for each directory its name
		t.Errorf("a walk of 3000 files in 30 directories allocates %v times", got)
	}
}

func FuzzNextEntry(f *testing.F) {
	f.Add([]byte("\x01\x00\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x18\x00\x04a\x00\x00\x00\x00"))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, listing []byte) {
		for len(listing) > 0 {
			name, _, rest, err := NextEntry(listing)
			if err != nil {
				return
			}
			if len(rest) >= len(listing) || len(name) < 2 || name[len(name)-1] != 0 || strings.Contains(string(name[:len(name)-1]), "\x00") {
				t.Fatalf("%q gives %q and %q", listing, name, rest)
			}
			_ = isDots(name)
			listing = rest
		}
	})
}
