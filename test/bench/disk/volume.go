package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// volume is the place of the tree.
type volume struct {
	dir   string // of its own, removed at the end
	root  string // of the tree
	image string // of the filesystem; "" for a tree in an ordinary directory
}

// newVolume creates an ext4 in a file and mounts it, so that its cache can be dropped
// without dropping the machine's. Without root it creates a directory.
func newVolume(ctx context.Context, s settings) (*volume, error) {
	dir, err := os.MkdirTemp(s.dir, "evictd-bench-disk-")
	if err != nil {
		return nil, fmt.Errorf("making a directory: %w", err)
	}
	v := &volume{dir: dir, root: filepath.Join(dir, "tree")}
	if err = os.Mkdir(v.root, 0o750); err != nil {
		return nil, fmt.Errorf("making a directory: %w", err)
	}
	if s.cold == 0 {
		return v, nil
	}
	const sizeMiB = 6 << 10
	v.image = filepath.Join(dir, "image")
	err = errors.Join(
		command(ctx, "truncate", "-s", fmt.Sprintf("%dM", sizeMiB), v.image),
		command(ctx, "mkfs.ext4", "-q", "-F", "-N", fmt.Sprint(s.files+s.files/4+10_000), v.image),
		v.mount(ctx))
	if err != nil {
		return nil, errors.Join(err, v.remove(context.WithoutCancel(ctx)))
	}
	return v, nil
}

func (v *volume) kind() string {
	if v.image == "" {
		return "in a directory; an ext4 of its own, and cold figures, need root"
	}
	return "an ext4 of its own on a loop device"
}

func (v *volume) mount(ctx context.Context) error {
	return command(ctx, "mount", "-o", "loop", v.image, v.root)
}

// chill makes the tree cold: the filesystem's own cache is dropped with its mount, and the
// image's pages are dropped too.
func (v *volume) chill(ctx context.Context) error {
	if err := command(ctx, "umount", v.root); err != nil {
		return err
	}
	image, err := os.OpenFile(v.image, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	err = errors.Join(image.Sync(), unix.Fadvise(int(image.Fd()), 0, 0, unix.FADV_DONTNEED), image.Close())
	return errors.Join(err, v.mount(ctx))
}

func (v *volume) remove(ctx context.Context) error {
	var err error
	if v.image != "" && isMount(v.root) {
		err = command(ctx, "umount", v.root)
	}
	if err != nil {
		return err // otherwise the tree would be removed file by file
	}
	return os.RemoveAll(v.dir)
}

func isMount(dir string) bool {
	var at, above unix.Stat_t
	return unix.Stat(dir, &at) == nil && unix.Stat(filepath.Dir(dir), &above) == nil && at.Dev != above.Dev
}

func command(ctx context.Context, name string, arguments ...string) error {
	out, err := exec.CommandContext(ctx, name, arguments...).CombinedOutput() //nolint:gosec // the words above
	if err != nil {
		return fmt.Errorf("%s %q: %w: %s", name, arguments, err, out)
	}
	return nil
}
