package pressure

import (
	"errors"
	"fmt"
	"slices"
)

// errNoKubepods is the reason of an absent allocatableMemory.available.
var errNoKubepods = errors.New("there is no kubepods cgroup")

// errUnlimited is the other reason: kube and system reservations are not enforced on the
// kubepods cgroup, or there are none and memory.available has thresholds that are met before.
var errUnlimited = errors.New("the kubepods cgroup has no memory limit below the node's memory")

// nodeMemory are the signals of the whole node's memory.
func nodeMemory() [2]Signal { return [...]Signal{MemoryAvailable, KubeletMemoryAvailable} }

// observeMemory reads the signals of the node's memory, from one reading of /proc/meminfo, and
// returns what of it is no huge page; 0 where no signal asks. They are read every 10 ms near a
// threshold; the kernel's definition allocates nothing elsewhere.
func (n *Node) observeMemory(s *Sample) (capacity int64, err error) {
	if n.meminfo == nil {
		return 0, nil
	}
	content, total, hugePages, err := n.readMeminfo()
	for _, signal := range nodeMemory() {
		switch {
		case !n.wanted[signal]:
		case err != nil:
			s.Observations[signal] = unknown(err)
		case n.definitionOf(signal) == WorkingSet:
			s.Observations[signal] = n.workingSetAvailable(total, hugePages)
		default:
			s.Observations[signal] = n.kernelAvailable(content, total-hugePages)
		}
	}
	return total - hugePages, err
}

// definitionOf returns how a signal of the node's memory is computed.
func (n *Node) definitionOf(signal Signal) MemoryDefinition {
	if signal == KubeletMemoryAvailable {
		return WorkingSet
	}
	return n.options.MemoryAvailable
}

// readMeminfo returns /proc/meminfo, valid until the next call, and of it MemTotal and the
// huge pages, used or not, which are available by neither definition.
func (n *Node) readMeminfo() (content []byte, total, hugePages int64, err error) {
	if content, err = n.meminfo.read(); err != nil {
		return nil, 0, 0, err
	}
	if total, err = parseMeminfo(content, "MemTotal:"); err == nil {
		hugePages, err = parseHugePages(content)
	}
	if err == nil && hugePages >= total {
		err = fmt.Errorf("%d bytes of huge pages leave nothing of MemTotal %d", hugePages, total)
	}
	if err != nil {
		return nil, 0, 0, fmt.Errorf("reading %s: %w", n.meminfo.Path(), err)
	}
	return content, total, hugePages, nil
}

// kernelAvailable is memory.available by the kernel's definition, of a capacity without huge
// pages.
func (n *Node) kernelAvailable(meminfo []byte, capacity int64) Observation {
	available, err := parseMeminfo(meminfo, "MemAvailable:")
	if err == nil && available > capacity {
		err = fmt.Errorf("MemAvailable %d is above MemTotal without huge pages, %d", available, capacity)
	}
	if err != nil {
		return unknown(fmt.Errorf("reading %s: %w", n.meminfo.Path(), err))
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

// workingSetAvailable is memory.available of kubelet 1.37 (adjustForHugePages in
// pkg/kubelet/server/stats/summary.go, makeMemoryAvailableSignalObservation in
// pkg/kubelet/eviction): MemTotal, which is the root cgroup's limit, minus the working set
// and huge pages. Percentages refer to the sum of that and the working set.
func (n *Node) workingSetAvailable(total, hugePages int64) Observation {
	root, err := n.root.read()
	if err != nil {
		return unknown(err)
	}
	available := total - root.used
	if hugePages > 0 {
		available = max(available-hugePages, 0)
	}
	return Observation{State: Known, Available: available, Capacity: available + root.used}
}

// allocatable reads allocatableMemory.available, given what observeMemory returned.
func (n *Node) allocatable(capacity int64, err error) Observation {
	if n.kubepods == nil {
		return absent(errNoKubepods)
	}
	var pods cgroupMemory
	if err == nil {
		pods, err = n.kubepods.read()
	}
	switch {
	case err != nil:
		return unknown(err)
	case pods.limit > unlimitedAbove, pods.limit >= capacity && n.repeated(capacity):
		return absent(errUnlimited)
	}
	return Observation{State: Known, Available: pods.limit - pods.used, Capacity: pods.limit}
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
