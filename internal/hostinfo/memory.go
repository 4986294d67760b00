package hostinfo

import (
	"context"
	"fmt"
	"math"

	"github.com/shirou/gopsutil/v3/mem"
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
	// PartHugePages is the pool of huge pages of the default size, used or not.
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
func (r *Reader) Memory(ctx context.Context) (Memory, error) {
	memory, err := ask(ctx, r, r.memory, readMemory)
	if err != nil {
		return nil, fmt.Errorf("reading what the memory is used by: %w", err)
	}
	return memory, nil
}

func readMemory(ctx context.Context) (Memory, error) {
	now, err := mem.VirtualMemoryWithContext(ctx)
	if err != nil {
		return nil, err
	}
	// The lists of anonymous pages are in another answer, which reads the file again.
	lists, err := mem.VirtualMemoryExWithContext(ctx)
	if err != nil {
		return nil, err
	}
	if err := complete(now, lists); err != nil {
		return nil, err
	}
	shared := now.Shared
	used := map[Part]uint64{
		PartAnonymous:         less(lists.ActiveAnon+lists.InactiveAnon, shared), // both lists hold shared memory
		PartShared:            shared,
		PartPageCache:         less(now.Cached, now.Sreclaimable+shared), // the library adds the one, the kernel the other
		PartBuffers:           now.Buffers,
		PartSlabReclaimable:   now.Sreclaimable,
		PartSlabUnreclaimable: now.Sunreclaim,
		PartPageTables:        now.PageTables,
		PartHugePages:         now.HugePagesTotal * now.HugePageSize,
	}
	rest := less(now.Total, now.Free)
	for _, bytes := range used {
		rest = less(rest, bytes)
	}
	used[PartOther] = rest
	memory := make(Memory, 0, len(used))
	for _, part := range Parts() {
		if used[part] > now.Total {
			return nil, fmt.Errorf("%w: %s is %d of %d bytes", ErrNoReading, part, used[part], now.Total)
		}
		memory = append(memory, Use{part, int64(used[part])}) //nolint:gosec // no more than the total, which is bounded
	}
	return memory, nil
}

// complete refuses zeros that a running host does not show: the library has no other word
// for a file, or a line, that is missing. PageTables comes after all other lines that are
// used but those of huge pages, which a kernel may be built without.
func complete(now *mem.VirtualMemoryStat, lists *mem.VirtualMemoryExStat) error {
	for what, bytes := range map[string]uint64{
		"MemTotal": now.Total, "MemFree": now.Free, "Cached": less(now.Cached, now.Sreclaimable),
		"Active(anon) and Inactive(anon)": lists.ActiveAnon + lists.InactiveAnon,
		"SUnreclaim":                      now.Sunreclaim, "PageTables": now.PageTables,
	} {
		if bytes == 0 {
			return fmt.Errorf("%w: %s is 0", ErrNoReading, what)
		}
	}
	switch {
	case now.Total > math.MaxInt64 || now.Free > now.Total:
		return fmt.Errorf("%w: %d of %d bytes are free", ErrNoReading, now.Free, now.Total)
	case now.HugePageSize > 0 && now.HugePagesTotal > now.Total/now.HugePageSize:
		return fmt.Errorf("%w: %d huge pages of %d bytes", ErrNoReading, now.HugePagesTotal, now.HugePageSize)
	}
	return nil
}

// less returns how much a is more than b. The figures are not of one moment, so that it may
// be less.
func less(a, b uint64) uint64 { return a - min(a, b) }
