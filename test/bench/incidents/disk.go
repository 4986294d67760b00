package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/test/internal/measure"
	"github.com/evictd/evictd/test/internal/node"
)

const (
	// diskSize is the size of the node's own filesystem. It is a sparse file: only data that is
	// written, as images and logs are, uses the machine's disk.
	diskSize = 32 * gibibyte
	// diskInodes is far above what a run needs. Their tables are written when it is made.
	diskInodes = 1 << 17
	// diskNeeded is what must be available on the machine's disk before scenarios of the disk:
	// a log that fills the node's disk is written in full.
	diskNeeded = 12 * gibibyte
)

// disk is the node's own filesystem. A file without data, the ballast, puts it at a distance from
// the lines.
type disk struct {
	root string // as this program sees it
	size int64
	// hard is evictd's default for imagefs.available, 16%. kubelet is the kubelet's, 15%. Both are in bytes that are
	// available.
	hard, kubelet int64
	calm          int64 // what is available without a run, in bytes
}

// find finds the filesystem of a running node.
func (d *disk) find(n *node.Node) error {
	d.root, _ = n.HostPath(".")
	var seen unix.Statfs_t
	err := unix.Statfs(d.root, &seen)
	if err != nil {
		return fmt.Errorf("reading the node's filesystem: %w", err)
	}
	const hardShare, kubeletShare, percent = 16, 15, 100
	d.size = int64(seen.Blocks) * seen.Bsize //nolint:gosec // far below
	d.hard, d.kubelet = d.size*hardShare/percent, d.size*kubeletShare/percent
	d.calm, err = d.available()
	return err
}

// available returns what is available, in bytes.
func (d *disk) available() (space int64, err error) {
	space, _, err = node.Available(d.root)
	return space, err
}

func (d *disk) ballast() string { return filepath.Join(d.root, "ballast") }

// place makes that much available, in bytes.
func (d *disk) place(ctx context.Context, want int64) error {
	const near = 4 * mebibyte
	off := func() (int64, error) {
		now, err := d.available()
		return now - want, err
	}
	if err := measure.Settle(ctx, -near, near, off, d.grow); err != nil {
		return fmt.Errorf("placing the node's disk: %w", err)
	}
	return nil
}

// grow changes the size of the ballast, in bytes.
func (d *disk) grow(by int64) (err error) {
	file, err := os.OpenFile(d.ballast(), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("opening the disk's ballast: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	info, err := file.Stat()
	switch {
	case err != nil:
	case by < 0:
		err = file.Truncate(max(0, info.Size()+by))
	default:
		err = unix.Fallocate(int(file.Fd()), 0, info.Size(), by)
	}
	if err != nil {
		return fmt.Errorf("changing the disk's ballast: %w", err)
	}
	return nil
}

// release removes the ballast.
func (d *disk) release() error { return os.RemoveAll(d.ballast()) }

// back waits until what the run before has used is available again: the kubelet removes the
// containers of pods, with their layers and logs, once a minute. Held is what the pods of this run
// hold already, in bytes.
func (d *disk) back(ctx context.Context, held int64) error {
	const near, atMost = 200 * mebibyte, 4 * time.Minute
	missing := int64(0)
	err := node.Until(ctx, atMost, func(context.Context) bool {
		now, unread := d.available()
		missing = d.calm - held - now
		return unread == nil && missing < near
	})
	if err != nil {
		return fmt.Errorf("waiting for the space of the run before to come back: %d MiB are missing: %w", missing>>20, err)
	}
	// Free blocks return to the file that the filesystem is in; where nothing can do that, it keeps its size.
	_ = exec.CommandContext(ctx, "fstrim", d.root).Run() //nolint:gosec // the node's own folder
	return nil
}

// enoughDisk says what the machine's disk lacks for the scenarios of the disk.
func enoughDisk(dir string) error {
	available, _, err := node.Available(dir)
	if err != nil {
		return err
	}
	if available < diskNeeded {
		return fmt.Errorf("%d MiB of disk are available in %s ($TMPDIR), the scenarios of the disk need %d", available>>20, dir, int64(diskNeeded)>>20)
	}
	return nil
}
