package pressure

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

// twoFilesystems is a node whose images have a filesystem of their own.
func twoFilesystems(root string) system {
	sys := fakeSystem()
	images := filepath.Join(root, "var/lib/containerd")
	sys.statfs = func(path string) (filesystem, error) {
		if path == images {
			return filesystem{device: 2, available: 7, capacity: 70, inodesFree: 8, inodes: 80}, nil
		}
		return filesystem{device: 1, available: 1, capacity: 10, inodesFree: 2, inodes: 20}, nil
	}
	return sys
}

// TestFilesystems: a filesystem that is mounted over the image directory, or unmounted from it, is detected without
// a restart, and one that fails is unknown until it is back.
func TestFilesystems(t *testing.T) {
	t.Parallel()
	const images = "var/lib/containerd"
	one, own := onDevice(1, known(1, 10)), onDevice(2, known(7, 70))
	btrfs, broken, unread := fakeSystem(), fakeSystem(), unknown(errors.New("EIO and the path"))
	broken.statfs = func(string) (filesystem, error) { return filesystem{}, unix.EIO }
	btrfs.statfs = func(string) (filesystem, error) { return filesystem{device: 1, available: 1, capacity: 10}, nil }
	for name, tc := range map[string]struct {
		dirs      []string
		directory string // of imagefs
		images    Observation
	}{
		"no images":                  {nil, "var/lib/kubelet", one},
		"images on nodefs":           {[]string{"var/lib/containers/storage"}, "var/lib/containers/storage", one},
		"images of their own":        {[]string{images}, images, own},
		"the first directory counts": {[]string{"var/lib/docker", images}, images, own},
	} {
		node := v1Tree()
		for _, dir := range tc.dirs {
			node[dir] = directory
		}
		root := node.Plant(t)
		sys, mounted := fakeSystem(), twoFilesystems(root)
		now, before := mounted, sys
		sys.statfs = func(path string) (filesystem, error) { return now.statfs(path) }
		n := mustOpen(t, Options{HostRoot: root, Signals: Signals(), MemoryAvailable: Kernel}, sys)
		for signal, want := range map[Signal]string{NodeFSAvailable: root + "/var/lib/kubelet", ImageFSInodesFree: filepath.Join(root, tc.directory), MemoryAvailable: ""} {
			if got := n.Directory(signal); got != want {
				t.Errorf("%s: Directory of %s is %q; want %q", name, signal, got, want)
			}
		}
		for _, step := range []struct {
			now                    system
			nodefs, inodes, images Observation
		}{
			{mounted, one, onDevice(1, known(2, 20)), tc.images},
			{broken, unread, unread, unread}, // and Open fails
			{before, onDevice(1, known(40*gib, 100*gib)), onDevice(1, known(5000, 9000)), onDevice(1, known(40*gib, 100*gib))},
			{mounted, one, onDevice(1, known(2, 20)), tc.images},
			{btrfs, one, absent(errNoInodes), one}, // it counts none, and that is no shortage
		} {
			now = step.now
			s := n.Sample(moment(0))
			for signal, want := range map[Signal]Observation{
				NodeFSAvailable: step.nodefs, NodeFSInodesFree: step.inodes, ImageFSAvailable: step.images, ContainerFSAvailable: step.images,
			} {
				got := s.Of(signal)
				if errors.Is(got.Err, unix.EIO) && strings.Contains(got.Err.Error(), root) {
					got.Err = unread.Err
				}
				if got != want {
					t.Errorf("%s: %s is %+v; want %+v", name, signal, got, want)
				}
			}
			again, err := open(n.options, sys)
			if errors.Is(err, unix.EIO) != (step.nodefs == unread) {
				t.Errorf("%s: opening the node again: %v", name, err)
			}
			if err == nil {
				_ = again.Close()
			}
		}
	}
}

// TestLinksOfTheHost: a link leads where it leads on the host, not in the container
// that sees the host's root somewhere.
func TestLinksOfTheHost(t *testing.T) {
	t.Parallel()
	node := procTree()
	delete(node, "var/lib/kubelet")
	node["data/kubelet"], node["data/containerd"], node["var/lib/x"] = directory, directory, ""
	root := node.Plant(t)
	for link, target := range map[string]string{"kubelet": "/data/kubelet", "containerd": "../../../../data/containerd"} {
		must(t, os.Symlink(target, filepath.Join(root, "var/lib", link)))
	}
	n := mustOpen(t, Options{HostRoot: root, Signals: []Signal{NodeFSAvailable, ImageFSAvailable}}, fakeSystem())
	for signal, want := range map[Signal]string{NodeFSAvailable: "data/kubelet", ImageFSAvailable: "data/containerd"} {
		if got := n.Directory(signal); got != filepath.Join(root, want) {
			t.Errorf("%s is about %q; want %q", signal, got, want)
		}
	}
}

// TestHungFilesystem: a mount that does not respond costs one sample its wait, makes its own
// signals unknown until it responds, and never has two calls in the kernel. What it responds then is out of
// date.
func TestHungFilesystem(t *testing.T) {
	t.Parallel()
	node := procTree()
	node["var/lib/containerd"] = directory
	root := node.Plant(t)
	synctest.Test(t, func(t *testing.T) {
		sys := twoFilesystems(root)
		answers, hung := sys.statfs, make(chan struct{})
		asked, hang := make(chan struct{}, 10), false
		sys.statfs = func(path string) (filesystem, error) {
			if hang && !strings.HasSuffix(path, "containerd") {
				asked <- struct{}{}
				<-hung
			}
			return answers(path)
		}
		n, err := open(Options{HostRoot: root, Signals: []Signal{MemoryAvailable, NodeFSAvailable, ImageFSAvailable}}, sys)
		must(t, err)
		sample := func(wantNode State, wantTook time.Duration) {
			t.Helper()
			started := time.Now()
			s := n.Sample(started)
			if took := time.Since(started); took != wantTook {
				t.Errorf("the sample took %s; want %s", took, wantTook)
			}
			for signal, want := range map[Signal]State{MemoryAvailable: Known, ImageFSAvailable: Known, NodeFSAvailable: wantNode} {
				if got := s.Of(signal); got.State != want {
					t.Errorf("%s is %+v; want it %s", signal, got, want)
				}
			}
		}
		sample(Known, 0)
		hang = true
		sample(Unknown, probeWait)
		sample(Unknown, 0)
		sample(Unknown, 0)
		if len(asked) != 1 {
			t.Errorf("%d calls are in the kernel; want 1", len(asked))
		}
		_ = n.Close() // which waits for nothing; the files are opened again
		hang = false
		close(hung)
		synctest.Wait()
		answers = func(path string) (filesystem, error) { return filesystem{device: 1, available: 3, capacity: 30}, nil }
		if s := n.Sample(time.Now()); s.Of(NodeFSAvailable) != onDevice(1, known(3, 30)) {
			t.Errorf("nodefs.available is %+v; want what was read after the hang", s.Of(NodeFSAvailable))
		}
		_ = n.Close()
	})
}

func TestParseStatfs(t *testing.T) {
	t.Parallel()
	good := unix.Statfs_t{Frsize: 4096, Bsize: 1 << 20, Blocks: 100, Bfree: 30, Bavail: 20, Files: 50, Ffree: 5}
	with := func(change func(*unix.Statfs_t)) unix.Statfs_t {
		raw := good
		change(&raw)
		return raw
	}
	got, err := parseStatfs(&good)
	if want := (filesystem{available: 20 * 4096, capacity: 100 * 4096, inodesFree: 5, inodes: 50}); err != nil || got != want {
		t.Errorf("got %+v, %v; want %+v", got, err, want)
	}
	full := with(func(s *unix.Statfs_t) { s.Bavail, s.Ffree = 0, 0 })
	if fs, err := parseStatfs(&full); err != nil || fs.available != 0 || fs.inodes != 50 {
		t.Errorf("a full filesystem reads as %+v, %v", fs, err)
	}
	dir := t.TempDir() // of which the kernel tells
	var directory unix.Stat_t
	must(t, unix.Stat(dir, &directory))
	if fs, err := statfs(dir); err != nil || fs.capacity <= 0 || fs.available > fs.capacity || fs.device != directory.Dev {
		t.Errorf("got %+v, %v", fs, err)
	}
	if _, err := statfs(filepath.Join(dir, "missing")); !errors.Is(err, unix.ENOENT) {
		t.Errorf("a missing directory: %v", err)
	}
	for name, raw := range map[string]unix.Statfs_t{
		"zeros":                  {},
		"no blocks":              with(func(s *unix.Statfs_t) { s.Blocks, s.Bavail = 0, 0 }),
		"blocks of no size":      with(func(s *unix.Statfs_t) { s.Frsize = 0 }),
		"blocks of minus size":   with(func(s *unix.Statfs_t) { s.Frsize = -1 }),
		"more free than blocks":  with(func(s *unix.Statfs_t) { s.Bavail = math.MaxUint64 }),
		"more free than inodes":  with(func(s *unix.Statfs_t) { s.Ffree = math.MaxUint64 }),
		"larger than 64 bits":    with(func(s *unix.Statfs_t) { s.Blocks = math.MaxUint64 }),
		"larger than 63 bits":    with(func(s *unix.Statfs_t) { s.Blocks = math.MaxInt64 / 2048 }),
		"more inodes than int64": with(func(s *unix.Statfs_t) { s.Files = math.MaxUint64 }),
	} {
		if fs, err := parseStatfs(&raw); err == nil {
			t.Errorf("%s reads as %+v", name, fs)
		}
	}
}
