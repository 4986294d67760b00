package filetree

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/internal/testing/filetreetest"
)

func mount(t *testing.T, source, target, kind string, flags uintptr, data string) bool {
	t.Helper()
	if err := os.MkdirAll(target, 0o755); err != nil {
		t.Error(err)
		return false
	}
	if err := unix.Mount(source, target, kind, flags, data); err != nil {
		t.Errorf("mounting %s: %v", target, err)
		return false
	}
	return true
}

// TestWalkEntersNoMount: neither another filesystem nor the same one again, by which a
// tree would have no end.
func TestWalkEntersNoMount(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	put(t, filepath.Join(root, "a", "file"), 1<<16)
	put(t, filepath.Join(root, "target"), 1)
	put(t, filepath.Join(root, "big"), 1<<20)
	want := expected(t, root)
	filetreetest.InMountNamespace(t, func() {
		// The mount points hide directories of the tree, which are not counted, because it cannot
		// be seen whether they are empty.
		mount(t, root, filepath.Join(root, "a", "loop"), "", unix.MS_BIND, "")
		if mount(t, "none", filepath.Join(root, "memory"), "tmpfs", 0, "") {
			put(t, filepath.Join(root, "memory", "file"), 1<<20)
		}
		// A file that lies on another one of the same filesystem is a mount, too.
		if err := unix.Mount(filepath.Join(root, "big"), filepath.Join(root, "target"), "", unix.MS_BIND, ""); err != nil {
			t.Error(err)
		}
		got := newWalker().walk(t.Context(), start(t, root))
		// Making the mount points may have made the directories larger, but hardly here.
		if got.Partial != nil || got.Inodes != want.Inodes-1 || got.Bytes > want.Bytes {
			t.Errorf("counted %+v, want %d inodes and at most %d bytes", got, want.Inodes-1, want.Bytes)
		}
	})
}

// TestWalkLeavesADeadFilesystemAlone: a FUSE filesystem whose server never answers, like a dead NFS
// server, is mounted in the tree. Any access to it blocks forever.
func TestWalkLeavesADeadFilesystemAlone(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	put(t, filepath.Join(root, "a", "file"), 1<<16)
	put(t, filepath.Join(root, "z", "file"), 1<<16)
	want := expected(t, root)
	device, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("no FUSE here: %v", err)
	}
	defer device.Close() // which unblocks every pending access
	filetreetest.InMountNamespace(t, func() {
		options := "fd=" + strconv.Itoa(int(device.Fd())) + ",rootmode=40000,user_id=0,group_id=0"
		if !mount(t, "dead", filepath.Join(root, "m"), "fuse", 0, options) {
			return
		}
		got := newWalker().walk(t.Context(), start(t, root))
		if got.Partial != nil || got.Inodes != want.Inodes || got.Bytes > want.Bytes {
			t.Errorf("counted %+v, want %d inodes and at most %d bytes", got, want.Inodes, want.Bytes)
		}
	})
}
