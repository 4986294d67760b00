package disk

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// The caches: what a measurement reads is in memory, or on the disk alone.
const warm, cold = "warm", "cold"

// volume is the place of the tree.
type volume struct {
	root  string // of the tree
	image string // of the filesystem; "" for a tree in an ordinary directory
}

// newVolume creates an ext4 in a file and mounts it until the end of the benchmark, so that its cache can be dropped
// without dropping the machine's. Without root it creates a directory.
func newVolume(tb testing.TB, dir string, files int) *volume {
	tb.Helper()
	dir, err := os.MkdirTemp(dir, "evictd-bench-disk-") //nolint:usetesting // where the caller wants it, on a real disk
	must(tb, err)
	v := &volume{root: filepath.Join(dir, "tree")}
	must(tb, os.Mkdir(v.root, 0o750))
	tb.Cleanup(func() {
		if v.image != "" {
			command(tb, "umount", v.root) // otherwise the tree would be removed file by file
		}
		must(tb, os.RemoveAll(dir))
	})
	if os.Geteuid() != 0 {
		return v
	}
	image := filepath.Join(dir, "image")
	command(tb, "truncate", "-s", "6G", image)
	command(tb, "mkfs.ext4", "-q", "-F", "-N", fmt.Sprint(files+files/4+10_000), image)
	command(tb, "mount", "-o", "loop", image, v.root)
	v.image = image
	return v
}

func (v *volume) kind() string {
	if v.image == "" {
		return "in a directory; an ext4 of its own, and cold figures, need root"
	}
	return "an ext4 of its own on a loop device"
}

func (v *volume) caches() []string {
	if v.image == "" {
		return []string{warm}
	}
	return []string{warm, cold}
}

// chill makes the tree cold: the filesystem's own cache is dropped with its mount, and the
// image's pages are dropped too.
func (v *volume) chill(tb testing.TB) {
	tb.Helper()
	command(tb, "umount", v.root)
	image, err := os.OpenFile(v.image, os.O_RDWR, 0)
	must(tb, err)
	must(tb, errors.Join(image.Sync(), unix.Fadvise(int(image.Fd()), 0, 0, unix.FADV_DONTNEED), image.Close()))
	command(tb, "mount", "-o", "loop", v.image, v.root)
}

func command(tb testing.TB, name string, arguments ...string) {
	tb.Helper()
	if out, err := exec.CommandContext(context.WithoutCancel(tb.Context()), name, arguments...).CombinedOutput(); err != nil {
		tb.Fatalf("%s %q: %v: %s", name, arguments, err, out)
	}
}
