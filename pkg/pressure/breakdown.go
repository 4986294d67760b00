package pressure

import (
	"context"
	"errors"
	"fmt"

	"github.com/shirou/gopsutil/v3/common"
	"github.com/shirou/gopsutil/v3/mem"
)

// This file is the only one that knows gopsutil. v3.24.5 answers zeros, and no
// error, for a /proc/meminfo that it cannot read or that lacks a line, and adds
// reclaimable slab to the page cache; its swap figures come from sysinfo(2) unless
// they are taken from the memory statistics. It is not used to decide anything.

// MemoryBreakdown tells where the node's memory is: for people, and to compare the
// machine that is read with the node that the API server knows.
// All figures are bytes, from one reading of /proc/meminfo.
type MemoryBreakdown struct {
	// Total is MemTotal, Available MemAvailable.
	Total, Available int64
	// Cached is the page cache, Shared the part of it that is tmpfs and shared
	// memory and cannot be dropped.
	Cached, Shared int64
	// Slab is the kernel's own data, SlabReclaimable the part it can drop.
	Slab, SlabReclaimable int64
	// Hugepages is what is set aside for hugepages of the default size, used or not;
	// 0 also on a kernel without hugepages.
	Hugepages int64
	// SwapTotal and SwapFree are 0 on a node without swap.
	SwapTotal, SwapFree int64
}

// Breakdown reads where the node's memory is. It is meant to be called once for a
// decision; Sample does not need it. An incomplete /proc/meminfo is an error.
func (n *Node) Breakdown(ctx context.Context) (MemoryBreakdown, error) {
	path := n.options.host("/proc/meminfo")
	if err := confirmMeminfo(path); err != nil {
		return MemoryBreakdown{}, err
	}
	ctx = context.WithValue(ctx, common.EnvKey, common.EnvMap{common.HostProcEnvKey: n.options.host("/proc")})
	memory, err := mem.VirtualMemoryWithContext(ctx)
	if err == nil && memory.Total == 0 {
		err = errors.New("MemTotal is 0")
	}
	if err != nil {
		return MemoryBreakdown{}, fmt.Errorf("reading %s: %w", path, err)
	}
	return MemoryBreakdown{
		Total:           signed(memory.Total),
		Available:       signed(memory.Available),
		Cached:          signed(memory.Cached - memory.Sreclaimable),
		Shared:          signed(memory.Shared),
		Slab:            signed(memory.Slab),
		SlabReclaimable: signed(memory.Sreclaimable),
		Hugepages:       signed(memory.HugePagesTotal * memory.HugePageSize),
		SwapTotal:       signed(memory.SwapTotal),
		SwapFree:        signed(memory.SwapFree),
	}, nil
}

// confirmMeminfo makes sure that every line is there that a figure is taken from.
func confirmMeminfo(path string) error {
	f := newKernelFile(path, meminfoMax)
	defer f.Close()
	content, err := f.read()
	if err != nil {
		return err
	}
	for _, key := range []string{
		"MemTotal:", "MemAvailable:", "Cached:", "Shmem:", "Slab:", "SReclaimable:", "SwapTotal:", "SwapFree:",
	} {
		if _, err := parseMeminfo(content, key); err != nil {
			return fmt.Errorf("reading %s: %w", path, err)
		}
	}
	return nil
}
