// Package memory reads the node's memory as evictd and the kubelet do, and takes a part of it: with
// that a benchmark puts the node at a distance from a threshold.
package memory

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/evictd/evictd/internal/kernelfile"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/test/internal/measure"
)

// Kernel returns the figure of evictd's threshold, in bytes: MemAvailable and what is free on the
// kernel's per-CPU lists beyond what these always keep, which evictd adds near a threshold.
func Kernel() (int64, error) {
	available, err := measure.Bytes("/proc/meminfo", "MemAvailable")
	zones, unread := os.ReadFile("/proc/zoneinfo")
	pages, unknown := kernelfile.FreeOnCPULists(zones)
	return available + pages*int64(os.Getpagesize()), errors.Join(err, unread, unknown)
}

// WorkingSet returns what reads the kubelet's memory.available, in bytes: MemTotal less huge pages and
// less the root cgroup's usage without its inactive file pages (cAdvisor's working set). One reading
// takes microseconds: the files stay open.
func WorkingSet() (read func() (int64, error), err error) {
	kubelets, err := pressure.Open(pressure.Options{MemoryAvailable: pressure.WorkingSet, Signals: []pressure.Signal{pressure.MemoryAvailable}})
	if err != nil {
		return nil, fmt.Errorf("opening the node's memory: %w", err)
	}
	return func() (int64, error) {
		sample := kubelets.Sample(time.Now())
		seen := sample.Of(pressure.MemoryAvailable)
		if seen.State != pressure.Known {
			return 0, fmt.Errorf("reading the node's memory as the kubelet does: %w", seen.Err)
		}
		return seen.Available, nil
	}, nil
}

// Ballast is memory of this program in place of other use of the node: with it the node is
// put at the same distance from a threshold before each run. The zero value is none.
type Ballast struct{ blocks [][]byte }

// Block is what the ballast changes by, in bytes.
const Block = 16 << 20

// Set changes the ballast to that many bytes, in whole blocks.
func (b *Ballast) Set(size int64) error {
	for int64(len(b.blocks))*Block < size {
		memory, err := syscall.Mmap(-1, 0, Block, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE|syscall.MAP_POPULATE)
		if err != nil {
			return fmt.Errorf("taking memory: %w", err)
		}
		b.blocks = append(b.blocks, memory)
	}
	for last := len(b.blocks) - 1; last >= 0 && int64(last)*Block >= size; last-- {
		if err := syscall.Munmap(b.blocks[last]); err != nil {
			return fmt.Errorf("giving memory back: %w", err)
		}
		b.blocks = b.blocks[:last]
	}
	return nil
}

// Place puts the node in its place: off returns by how many bytes it is away. See [measure.Settle].
func (b *Ballast) Place(ctx context.Context, off func() (int64, error)) error {
	const near = 8 << 20
	return measure.Settle(ctx, -Block, Block+near, off, func(by int64) error { return b.Set(b.Size() + by) })
}

// Size returns its size in bytes.
func (b *Ballast) Size() int64 { return int64(len(b.blocks)) * Block }
