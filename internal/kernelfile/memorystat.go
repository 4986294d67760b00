package kernelfile

// MemoryStat holds figures of a memory.stat, in bytes, of a group with those below it.
type MemoryStat struct {
	// Anonymous is the memory that no file backs, excluding tmpfs and swapped memory.
	Anonymous int64
	// PageCache includes Shared, which is tmpfs and shared memory.
	PageCache, Shared int64
	// InactiveFile and ActiveFile are parts of the page cache.
	InactiveFile, ActiveFile int64
	// SlabReclaimable is the part of the kernel's memory that the kernel can drop. It is valid on cgroup v2 only.
	SlabReclaimable int64
	// Kernel is the kernel's memory. It is valid only with KernelKnown: on cgroup v2 since Linux 5.18.
	Kernel      int64
	KernelKnown bool
}

// ParseMemoryStat reads all figures, and allocates nothing. One that is missing is an error, but for Kernel. On
// cgroup v1 the lines that begin with "total_" include the groups below, as all do on v2.
func ParseMemoryStat(content []byte, unified bool) (s MemoryStat, err error) {
	of := func(key string) (n int64) {
		if err == nil {
			n, err = Stat(content, key)
		}
		return n
	}
	if !unified {
		s.Anonymous, s.PageCache, s.Shared = of("total_rss "), of("total_cache "), of("total_shmem ")
		s.InactiveFile, s.ActiveFile = of("total_inactive_file "), of("total_active_file ")
		return s, err
	}
	s.Anonymous, s.PageCache, s.Shared = of("anon "), of("file "), of("shmem ")
	s.InactiveFile, s.ActiveFile, s.SlabReclaimable = of("inactive_file "), of("active_file "), of("slab_reclaimable ")
	if s.KernelKnown = line(content, "kernel ") != nil; s.KernelKnown {
		s.Kernel = of("kernel ")
	}
	return s, err
}

// Add adds the figures of another group on the same node.
func (s *MemoryStat) Add(other *MemoryStat) {
	s.Anonymous += other.Anonymous
	s.PageCache += other.PageCache
	s.Shared += other.Shared
	s.InactiveFile += other.InactiveFile
	s.ActiveFile += other.ActiveFile
	s.SlabReclaimable += other.SlabReclaimable
	s.Kernel += other.Kernel
}

// Accounted returns how much of a group's usage the file accounts for, in bytes: all but kernel memory on
// cgroup v1 and on v2 before Linux 5.18.
func (s *MemoryStat) Accounted() int64 { return s.Anonymous + s.PageCache + s.Kernel }
