package hostinfo

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/kernelfile"
)

// Parts returns what the node's memory is used by, in the order in which it is reported. No byte counts
// twice.
func Parts() []decide.Part {
	return []decide.Part{
		"Anonymous",         // the processes' own memory, of pods and of the host, as far as it is not locked
		"Shared",            // tmpfs (emptyDirs in memory too) and memory that processes share
		"PageCache",         // the content of files; the kernel gives most of it back when it is needed
		"Buffers",           // the cache of block devices and of filesystems' metadata
		"SlabReclaimable",   // kernel objects that can be dropped, such as cached names of files
		"SlabUnreclaimable", // kernel objects that cannot
		"PageTables",        // what maps processes' memory
		"HugePages",         // the pools of huge pages, used or not
		decide.PartOther,    // all else: kernel stacks, drivers, per-CPU memory, locked memory
	}
}

// Memory reads what the node's memory is used by, in bytes: each of [Parts], which together are what is not
// free. All of it is known, or none: then it is nil, and the fault is reported.
func (r *Reader) Memory() decide.Breakdown {
	const most = 16 << 10 // more than the file has, in bytes
	file := kernelfile.New(r.path("proc/meminfo"))
	defer file.Close()
	used, err := kernelfile.Parse(&file, make([]byte, most), breakdown)
	if err != nil {
		r.failed(fmt.Errorf("reading what the memory is used by: %w", err))
		return nil
	}
	return used
}

// breakdown takes the parts from a /proc/meminfo. The lists of anonymous pages have shared memory too, and so
// has the page cache.
func breakdown(meminfo []byte) (decide.Breakdown, error) {
	huge, fault := kernelfile.HugePages(meminfo)
	figure := func(name string) int64 {
		n, err := kernelfile.Meminfo(meminfo, name+":")
		fault = cmp.Or(fault, err)
		return n
	}
	total, shared := figure("MemTotal"), figure("Shmem")
	used, rest := decide.Breakdown{}, total-figure("MemFree")
	if rest < 0 {
		fault = cmp.Or(fault, errors.New("more is free than there is"))
	}
	for i, amount := range []int64{
		max(0, figure("Active(anon)")+figure("Inactive(anon)")-shared), shared, max(0, figure("Cached")-shared), figure("Buffers"),
		figure("SReclaimable"), figure("SUnreclaim"), figure("PageTables"), huge,
	} {
		part := Parts()[i]
		if amount > total {
			fault = cmp.Or(fault, fmt.Errorf("%s is %d of %d bytes", part, amount, total))
		}
		used[part], rest = amount, max(0, rest-amount) // the figures are not of one moment
	}
	used[decide.PartOther] = rest
	return used, fault
}
