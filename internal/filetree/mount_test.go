package filetree

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/internal/testing/filetreetest"
)

// mount is what is mounted on a name of a tree.
type mount struct {
	source, on, kind string
	flags            uintptr
	data             string
}

// countsAllBut requires that all of a tree is counted but what mounts hide, of which it cannot be seen whether it
// is empty.
func countsAllBut(t *testing.T, root string, mounts ...mount) {
	t.Helper()
	for _, m := range mounts {
		_ = os.Mkdir(filepath.Join(root, m.on), 0o755) // unless a file is there
	}
	want := expected(t, root)
	filetreetest.InMountNamespace(t, func() {
		for _, m := range mounts {
			if err := unix.Mount(m.source, filepath.Join(root, m.on), m.kind, m.flags, m.data); err != nil {
				t.Errorf("mounting %s: %v", m.on, err)
			}
		}
		got := walk(t.Context(), newTurn(), start(t, root))
		if left := want.Inodes - int64(len(mounts)); got.Partial != nil || got.Inodes != left || got.Bytes > want.Bytes {
			t.Errorf("counted %+v, want %d inodes and at most %d bytes", got, left, want.Bytes)
		}
	})
}

// TestWalkEntersNoMount: neither another filesystem nor the same one again, by which a tree would have no end. A
// file that lies on another one of the same filesystem is a mount, too.
func TestWalkEntersNoMount(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	put(t, filepath.Join(root, "a", "file"), 1<<16)
	put(t, filepath.Join(root, "target"), 1)
	put(t, filepath.Join(root, "big"), 1<<20)
	countsAllBut(t, root, mount{source: root, on: "a/loop", flags: unix.MS_BIND},
		mount{source: filepath.Join(root, "big"), on: "target", flags: unix.MS_BIND},
		mount{source: "none", on: "memory", kind: "tmpfs"})
}

// TestWalkLeavesADeadFilesystemAlone: a FUSE filesystem whose server never answers, like a dead NFS
// server, is mounted in the tree. Any access to it blocks forever.
func TestWalkLeavesADeadFilesystemAlone(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	put(t, filepath.Join(root, "a", "file"), 1<<16)
	put(t, filepath.Join(root, "z", "file"), 1<<16)
	device, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("no FUSE here: %v", err)
	}
	defer device.Close() // which unblocks every pending access
	options := "fd=" + strconv.Itoa(int(device.Fd())) + ",rootmode=40000,user_id=0,group_id=0"
	countsAllBut(t, root, mount{source: "dead", on: "m", kind: "fuse", data: options})
}
