// Package memory reads the node's memory as evictd and the kubelet do, and takes a part of it: with
// that a benchmark puts the node at a distance from a threshold.
package memory

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"

	"github.com/evictd/evictd/pkg/pressure"
)

// Readings are the files with the memory figures. They stay open so that one reading takes
// microseconds.
type Readings struct {
	meminfo, stat, usage *os.File // usage is nil on cgroup v2: its root has none
	total                int64    // in bytes, without huge pages
	buffer               []byte
}

const statBuffer = 16 << 10

// Open opens them.
func Open() (*Readings, error) {
	r := &Readings{buffer: make([]byte, statBuffer)}
	var err error
	if r.meminfo, err = os.Open("/proc/meminfo"); err != nil {
		return nil, fmt.Errorf("opening the node's memory: %w", err)
	}
	root := "/sys/fs/cgroup/memory"
	if _, missing := os.Stat("/sys/fs/cgroup/cgroup.controllers"); missing == nil {
		root = "/sys/fs/cgroup"
	} else if r.usage, err = os.Open(root + "/memory.usage_in_bytes"); err != nil {
		return nil, fmt.Errorf("opening the root cgroup's usage: %w", err)
	}
	if r.stat, err = os.Open(root + "/memory.stat"); err != nil {
		return nil, fmt.Errorf("opening the root cgroup's memory.stat: %w", err)
	}
	kibibytes, err := r.field(r.meminfo, "MemTotal:")
	if err != nil {
		return nil, err
	}
	huge, err := r.field(r.meminfo, "Hugetlb:")
	r.total = (kibibytes - huge) << 10
	return r, err
}

// Close closes the files.
func (r *Readings) Close() {
	for _, f := range []*os.File{r.meminfo, r.stat, r.usage} {
		if f != nil {
			_ = f.Close() // only read
		}
	}
}

// Kernel returns the figure of evictd's threshold, in bytes: MemAvailable and what is free on the
// kernel's per-CPU lists, which evictd adds near a threshold.
func (r *Readings) Kernel() (int64, error) {
	kibibytes, err := r.field(r.meminfo, "MemAvailable:")
	if err != nil {
		return 0, err
	}
	lists, err := pressure.FreeOnCPULists("/")
	return kibibytes<<10 + lists, err
}

// WorkingSet returns the kubelet's memory.available, in bytes: MemTotal less huge pages and
// less the root cgroup's usage without its inactive file pages (cAdvisor's working set).
func (r *Readings) WorkingSet() (int64, error) {
	if r.usage == nil {
		return r.workingSet2()
	}
	// The order is the kubelet's own: reading memory.stat makes the kernel add up the counts
	// of its CPUs; without that the usage is up to two seconds old.
	inactive, unread := r.field(r.stat, "total_inactive_file")
	n, err := r.usage.ReadAt(r.buffer, 0)
	usage, malformed := strconv.ParseInt(string(bytes.TrimSpace(r.buffer[:n])), 10, 64)
	if n == 0 || malformed != nil {
		return 0, fmt.Errorf("reading the root cgroup's usage: %w", errors.Join(err, malformed))
	}
	return r.total - max(0, usage-inactive), unread
}

func (r *Readings) workingSet2() (int64, error) {
	sum := int64(0)
	for name, sign := range map[string]int64{"anon": 1, "file": 1, "inactive_file": -1} {
		value, err := r.field(r.stat, name)
		if err != nil {
			return 0, err
		}
		sum += sign * value
	}
	return r.total - max(0, sum), nil
}

// field returns the number after a name at the start of a line.
func (r *Readings) field(file *os.File, name string) (int64, error) {
	n, err := file.ReadAt(r.buffer, 0)
	for line := range bytes.Lines(r.buffer[:n]) {
		rest, found := bytes.CutPrefix(line, []byte(name))
		if !found || len(rest) == 0 || rest[0] != ' ' {
			continue
		}
		number, _, _ := bytes.Cut(bytes.TrimSpace(rest), []byte(" "))
		value, malformed := strconv.ParseInt(string(number), 10, 64)
		if malformed != nil {
			return 0, fmt.Errorf("reading %s of %s: %w", name, file.Name(), malformed)
		}
		return value, nil
	}
	return 0, fmt.Errorf("reading %s of %s: no such line: %w", name, file.Name(), err)
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

// Size returns its size in bytes.
func (b *Ballast) Size() int64 { return int64(len(b.blocks)) * Block }
