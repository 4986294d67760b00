package kernelfile

import "fmt"

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

// ParseMemoryStat reads all figures, and allocates nothing.
func ParseMemoryStat(content []byte, unified bool) (s MemoryStat, err error) {
	s.unified = unified
	for f, key := range keysOf(unified) {
		if key == "" || line(content, key) == nil {
			s.values[f] = -1
		} else if s.values[f], err = Stat(content, key); err != nil {
			return MemoryStat{}, err
		}
	}
	return s, nil
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
		if s.values[f] >= 0 && n >= 0 {
			s.values[f] += n
		} else {
			s.values[f] = -1
		}
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
