package kernelfile

import (
	"bytes"
	"fmt"
)

// Figure is one figure of a memory.stat, in bytes.
type Figure int

// The figures.
const (
	// Anonymous is the memory that no file backs, excluding tmpfs and swapped memory.
	Anonymous Figure = iota
	// Shared is tmpfs and shared memory.
	Shared
	// PageCache includes what is shared.
	PageCache
	// InactiveFile and ActiveFile are parts of the page cache.
	InactiveFile
	ActiveFile
	// Kernel is the kernel's memory, of cgroup v2 since Linux 5.18, and SlabReclaimable the part of
	// it that the kernel can drop, of cgroup v2.
	Kernel
	SlabReclaimable

	figureCount
)

// keysOf returns the figures' lines, each with the space that ends its key; "" where a version has
// none. On cgroup v1 those that begin with "total_" include the groups below, as all do on v2.
func keysOf(unified bool) [figureCount]string {
	if unified {
		return [...]string{"anon ", "shmem ", "file ", "inactive_file ", "active_file ", "kernel ", "slab_reclaimable "}
	}
	return [...]string{"total_rss ", "total_shmem ", "total_cache ", "total_inactive_file ", "total_active_file ", "", ""}
}

// MemoryStat holds the figures of a memory.stat.
type MemoryStat struct {
	unified bool
	values  [figureCount]int64 // -1 for a figure that the file does not have
}

// mostMemory is more than any machine has, so that no sum of figures overflows.
const mostMemory = 1 << 60

// ParseMemoryStat reads all figures in one pass and allocates nothing. The first line of a key counts; a
// last line without an end, which may have been cut off in a number, does not.
func ParseMemoryStat(content []byte, unified bool) (MemoryStat, error) {
	s := MemoryStat{unified: unified, values: [...]int64{-1, -1, -1, -1, -1, -1, -1}}
	keys := keysOf(unified)
	for len(content) > 0 {
		end := bytes.IndexByte(content, '\n')
		if end < 0 {
			break
		}
		if err := s.take(&keys, content[:end]); err != nil {
			return MemoryStat{}, err
		}
		content = content[end+1:]
	}
	return s, nil
}

// take reads a line if it is one of the figures.
func (s *MemoryStat) take(keys *[figureCount]string, line []byte) error {
	for f, key := range keys {
		if key == "" || s.values[f] >= 0 || len(line) < len(key) || string(line[:len(key)]) != key {
			continue
		}
		n, err := number(line[len(key):])
		if err == nil && n > mostMemory {
			err = ErrOverflow
		}
		if err != nil {
			return fmt.Errorf("line %q: %w", key, err)
		}
		s.values[f] = n
		return nil
	}
	return nil
}

// Of returns a figure; known is false where the file does not have it.
func (s *MemoryStat) Of(f Figure) (n int64, known bool) {
	return max(0, s.values[f]), s.values[f] >= 0
}

// Sum adds figures up. One that the file does not have is an error, never zero.
func (s *MemoryStat) Sum(figures ...Figure) (sum int64, err error) {
	for _, f := range figures {
		n, known := s.Of(f)
		if !known {
			return 0, fmt.Errorf("no line %q", keysOf(s.unified)[f])
		}
		sum += n
	}
	return sum, nil
}

// Add adds the figures of another group. A figure that one of them does not have stays unknown.
func (s *MemoryStat) Add(other *MemoryStat) {
	for f, n := range other.values {
		if s.values[f] < 0 || n < 0 {
			s.values[f] = -1
			continue
		}
		s.values[f] += n
	}
}

// Accounted returns how much of a group's usage the file accounts for, in bytes: all but kernel memory on
// cgroup v1 and on v2 before Linux 5.18.
func (s *MemoryStat) Accounted() int64 {
	kernel, _ := s.Of(Kernel)
	anonymous, _ := s.Of(Anonymous)
	cache, _ := s.Of(PageCache)
	return kernel + anonymous + cache
}
