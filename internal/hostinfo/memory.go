package hostinfo

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/kernelfile"
)

// Memory reads what the node's memory is used by, in bytes, which together is what is not free. No byte counts
// twice. All of it is known, or none: then it is nil, and the fault is reported.
func (r *Reader) Memory() decide.Breakdown {
	const most = 16 << 10 // more than the file has, in bytes
	used, err := kernelfile.ParseOnce(r.path("proc/meminfo"), make([]byte, most), breakdown)
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
	used, rest := decide.Breakdown{
		// The processes' own memory, of pods and of the host, as far as it is not locked.
		"Anonymous":         max(0, figure("Active(anon)")+figure("Inactive(anon)")-shared),
		"Shared":            shared,                          // tmpfs (emptyDirs in memory too) and memory that processes share
		"PageCache":         max(0, figure("Cached")-shared), // the content of files; the kernel gives most of it back when it is needed
		"Buffers":           figure("Buffers"),               // the cache of block devices and of filesystems' metadata
		"SlabReclaimable":   figure("SReclaimable"),          // kernel objects that can be dropped, such as cached names of files
		"SlabUnreclaimable": figure("SUnreclaim"),            // kernel objects that cannot
		"PageTables":        figure("PageTables"),            // what maps processes' memory
		"HugePages":         huge,                            // the pools of huge pages, used or not
	}, total-figure("MemFree")
	if rest < 0 {
		fault = cmp.Or(fault, errors.New("more is free than there is"))
	}
	for part, amount := range used {
		if amount > total {
			fault = cmp.Or(fault, fmt.Errorf("%s is %d of %d bytes", part, amount, total))
		}
		rest = max(0, rest-amount) // the figures are not of one moment
	}
	used[decide.PartOther] = rest // kernel stacks, drivers, per-CPU memory, locked memory
	return used, fault
}
