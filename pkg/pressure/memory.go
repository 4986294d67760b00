package pressure

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/evictd/evictd/internal/kernelfile"
)

// errNoKubepods is the reason of an absent allocatableMemory.available.
var errNoKubepods = errors.New("there is no kubepods cgroup")

// errUnlimited is the other reason: kube and system reservations are not enforced on the
// kubepods cgroup, or there are none and memory.available has thresholds that are met before.
var errUnlimited = errors.New("the kubepods cgroup has no memory limit below the node's memory")

// findMemory finds what the signals of memory need.
func (n *Node) findMemory() error {
	file := n.file("/proc/meminfo")
	for _, signal := range []Signal{MemoryAvailable, KubeletMemoryAvailable, AllocatableMemoryAvailable} {
		group, definition := "/", n.options.MemoryAvailable
		switch {
		case !n.wants(signal):
			continue
		case signal == KubeletMemoryAvailable:
			definition = WorkingSet
		case signal == AllocatableMemoryAvailable:
			group = n.options.Kubepods
		case definition != WorkingSet:
			n.readers[signal] = func(time.Time) Observation { return n.kernelAvailable(file) }
			continue
		}
		if group == "" {
			n.readers[signal] = func(time.Time) Observation { return absent(errNoKubepods) }
			continue
		}
		g, err := findMemoryCgroup(n.options.host(cgroupRoot), group, definition)
		if err != nil {
			return fmt.Errorf("preparing %s: %w", signal, err)
		}
		n.files = append(n.files, &g.stat, &g.usage, &g.limit, &g.kernel)
		n.readers[signal] = func(time.Time) Observation { return n.groupAvailable(file, g, signal == AllocatableMemoryAvailable) }
	}
	return nil
}

// meminfo holds the figures of /proc/meminfo, in bytes. All signals of the node's memory use one reading in
// a sample: they are read every 10 ms near a threshold.
type meminfo struct {
	// total is MemTotal, and hugePages the huge pages, used or not, which are available by neither
	// definition: less than total. Total is 0 before the reading.
	total, hugePages int64
	// available is MemAvailable, and fault why it is not known.
	available int64
	fault     error
}

// readMeminfo returns the reading of this sample. It allocates nothing.
func (n *Node) readMeminfo(file *kernelfile.File) (read *meminfo, err error) {
	if n.meminfo.total == 0 {
		n.meminfo, err = kernelfile.Parse(file, n.buffer, parseMeminfo)
	}
	return &n.meminfo, err
}

func parseMeminfo(content []byte) (read meminfo, err error) {
	read.total, err = kernelfile.Meminfo(content, "MemTotal:")
	if err == nil {
		read.hugePages, err = kernelfile.HugePages(content)
	}
	if err == nil && read.hugePages >= read.total {
		err = fmt.Errorf("%d bytes of huge pages leave nothing of MemTotal %d", read.hugePages, read.total)
	}
	read.available, read.fault = kernelfile.Meminfo(content, "MemAvailable:")
	return read, err
}

// kernelAvailable is memory.available by the kernel's definition, of a capacity without huge
// pages.
func (n *Node) kernelAvailable(file *kernelfile.File) Observation {
	read, err := n.readMeminfo(file)
	if err != nil {
		return unknown(err)
	}
	available, capacity, fault := read.available, read.total-read.hugePages, read.fault
	if available > capacity {
		fault = fmt.Errorf("MemAvailable %d is above MemTotal without huge pages, %d", available, capacity)
	}
	if fault != nil {
		return unknown(fmt.Errorf("reading %s: %w", file.Path, fault))
	}
	if n.near(available, capacity) {
		free, err := n.options.readCPULists(&n.zoneinfo)
		if err == nil { // otherwise they count nothing, as far from a threshold
			available = min(available+free, capacity)
		}
	}
	return Observation{State: Known, Available: available, Capacity: capacity}
}

// near reports whether a threshold of memory.available may be met or regained soon: no more
// than as much again as its target is left. Reading the per-CPU lists costs more than the rest
// of a sample.
func (n *Node) near(available, capacity int64) bool {
	return slices.ContainsFunc(n.options.Thresholds, func(t Threshold) bool {
		return t.Signal == MemoryAvailable && available/2 < t.Quantity.Of(capacity)+t.MinReclaim.Of(capacity)
	})
}

// groupAvailable is what the use of a group leaves: to the kubepods cgroup of its limit, else
// memory.available of kubelet 1.37 (adjustForHugePages in pkg/kubelet/server/stats/summary.go,
// makeMemoryAvailableSignalObservation in pkg/kubelet/eviction): MemTotal, which is the root cgroup's
// limit, minus the working set and huge pages. Percentages refer to the sum of that and the working set.
func (n *Node) groupAvailable(file *kernelfile.File, g *memoryCgroup, limited bool) Observation {
	read, err := n.readMeminfo(file)
	if err != nil {
		return unknown(err)
	}
	used, err := g.used(n.buffer)
	if err != nil {
		return unknown(err)
	}
	capacity := read.total - read.hugePages
	if !limited {
		available := max(capacity-used, 0)
		return Observation{State: Known, Available: available, Capacity: available + used}
	}
	limit, err := g.limited(n.buffer)
	switch {
	case err != nil:
		return unknown(err)
	case limit > unlimitedAbove, limit >= capacity && n.repeated(capacity):
		return absent(errUnlimited)
	}
	return Observation{State: Known, Available: limit - used, Capacity: limit}
}

// repeated reports whether allocatableMemory.available has thresholds, and memory.available one that
// is met before each of them where the pods' limit is all of the memory, as the default ones are.
func (n *Node) repeated(capacity int64) (all bool) {
	for _, t := range n.options.Thresholds {
		if t.Signal != AllocatableMemoryAvailable {
			continue
		}
		if all = slices.ContainsFunc(n.options.Thresholds, func(m Threshold) bool {
			return m.Signal == MemoryAvailable && m.Grace <= t.Grace && m.Quantity.Of(capacity) >= t.Quantity.Of(capacity)
		}); !all {
			break
		}
	}
	return all
}
