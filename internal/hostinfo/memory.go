package hostinfo

import (
	"bytes"
	"cmp"
	"fmt"
	"math"

	"github.com/evictd/evictd/internal/kernelfile"
)

// Part names what a part of the node's memory is used by.
type Part string

// The parts. No byte counts twice.
const (
	// PartAnonymous is the processes' own memory, of pods and of the host, as far as it is
	// not locked.
	PartAnonymous Part = "Anonymous"
	// PartShared is tmpfs (emptyDirs in memory too) and memory that processes share.
	PartShared Part = "Shared"
	// PartPageCache is the content of files. The kernel gives most of it back when it is needed.
	PartPageCache Part = "PageCache"
	// PartBuffers is the cache of block devices and of filesystems' metadata.
	PartBuffers Part = "Buffers"
	// PartSlabReclaimable is kernel objects that can be dropped, such as cached names of files.
	PartSlabReclaimable Part = "SlabReclaimable"
	// PartSlabUnreclaimable is kernel objects that cannot.
	PartSlabUnreclaimable Part = "SlabUnreclaimable"
	// PartPageTables is what maps processes' memory.
	PartPageTables Part = "PageTables"
	// PartHugePages is the pools of huge pages, used or not.
	PartHugePages Part = "HugePages"
	// PartOther is all else: kernel stacks, drivers, per-CPU memory, locked memory.
	PartOther Part = "Other"
)

// Parts returns every part, in the order in which they are reported.
func Parts() []Part {
	return []Part{
		PartAnonymous, PartShared, PartPageCache, PartBuffers, PartSlabReclaimable,
		PartSlabUnreclaimable, PartPageTables, PartHugePages, PartOther,
	}
}

// Use is how much of the memory is used by one part.
type Use struct {
	Part  Part
	Bytes int64
}

// Memory says what the node's memory is used by: each of [Parts] once, in that order, which
// together are what is not free.
type Memory []Use

// Memory reads what the node's memory is used by. All of it is known, or none.
func (r *Reader) Memory() (Memory, error) {
	m := readMeminfo(r.path("proc/meminfo"))
	// The lists of anonymous pages have shared memory too, and so has the page cache.
	total, shared := m.figure("MemTotal"), m.figure("Shmem")
	used := []int64{
		max(0, m.figure("Active(anon)")+m.figure("Inactive(anon)")-shared),
		shared,
		max(0, m.figure("Cached")-shared),
		m.figure("Buffers"),
		m.figure("SReclaimable"),
		m.figure("SUnreclaim"),
		m.figure("PageTables"),
		m.hugePages(),
	}
	memory, rest := make(Memory, 0, len(used)+1), total-m.figure("MemFree")
	for i, part := range append(used, rest) {
		if part < 0 || part > total {
			m.fail(fmt.Errorf("%s is %d of %d bytes", Parts()[i], part, total))
		}
	}
	for i, part := range used {
		memory, rest = append(memory, Use{Parts()[i], part}), max(0, rest-part) // the figures are not of one moment
	}
	if m.err != nil {
		return nil, fmt.Errorf("reading what the memory is used by: %w", m.err)
	}
	return append(memory, Use{PartOther, rest}), nil
}

// meminfo is /proc/meminfo, with the first fault that was found in it.
type meminfo struct {
	content []byte
	err     error
}

func readMeminfo(path string) *meminfo {
	const most = 16 << 10 // more than it has, in bytes
	file := kernelfile.New(path)
	defer file.Close()
	content, err := file.Read(make([]byte, most))
	if err == nil && !bytes.HasSuffix(content, []byte("\n")) {
		err = fmt.Errorf("reading %s: %w", path, kernelfile.ErrTruncated)
	}
	return &meminfo{content, err}
}

func (m *meminfo) fail(err error) { m.err = cmp.Or(m.err, err) }

// figure returns one in bytes, whose line is written "MemTotal:       24684096 kB".
func (m *meminfo) figure(name string) int64 {
	line, err := kernelfile.Line(m.content, name+":")
	if err != nil {
		m.fail(err)
		return 0
	}
	kibibytes, unit, err := kernelfile.LeadingNumber(bytes.TrimLeft(line, " "))
	switch {
	case err == nil && string(unit) != " kB":
		err = kernelfile.ErrTrailing
	case err == nil && kibibytes > math.MaxInt64>>20: // sums of them fit too
		err = kernelfile.ErrOverflow
	}
	if err != nil {
		m.fail(fmt.Errorf("line %q: %w", name, err))
		return 0
	}
	return kibibytes << 10
}

// hugePages returns the memory in all pools of huge pages; 0 where the kernel has none.
func (m *meminfo) hugePages() int64 {
	if !bytes.Contains(m.content, []byte("\nHugetlb:")) {
		return 0
	}
	return m.figure("Hugetlb")
}
