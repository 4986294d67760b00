package pressure

import (
	"errors"
	"fmt"
)

// errNoKubepods is the reason of an absent allocatableMemory.available.
var errNoKubepods = errors.New("there is no kubepods cgroup")

// errUnlimited is the other: kube and system reservations are not enforced on
// the kubepods cgroup.
var errUnlimited = errors.New("the kubepods cgroup has no memory limit")

// memory reads memory.available by the definition that was asked for. It is read
// every 10 ms near a threshold; with the kernel's definition it allocates nothing.
func (n *Node) memory() Observation {
	content, err := n.meminfo.read()
	if err != nil {
		return unknown(err)
	}
	total, err := parseMeminfo(content, "MemTotal:")
	if err == nil && total == 0 {
		err = errors.New("MemTotal is 0")
	}
	if err != nil {
		return unknown(fmt.Errorf("reading %s: %w", n.meminfo.Path(), err))
	}
	if n.root != nil {
		return n.workingSetAvailable(total)
	}
	available, err := parseMeminfo(content, "MemAvailable:")
	if err == nil && available > total {
		err = fmt.Errorf("MemAvailable %d is above MemTotal %d", available, total)
	}
	if err != nil {
		return unknown(fmt.Errorf("reading %s: %w", n.meminfo.Path(), err))
	}
	return Observation{State: Known, Available: available, Capacity: total}
}

// workingSetAvailable is the kubelet's memory.available (cadvisor
// container/raw/handler.go sets the root's limit to MemTotal).
func (n *Node) workingSetAvailable(total int64) Observation {
	root, err := n.root.read()
	if err != nil {
		return unknown(err)
	}
	return Observation{State: Known, Available: total - root.workingSet, Capacity: total}
}

// allocatable reads allocatableMemory.available.
func (n *Node) allocatable() Observation {
	if n.kubepods == nil {
		return absent(errNoKubepods)
	}
	pods, err := n.kubepods.read()
	switch {
	case err != nil:
		return unknown(err)
	case !pods.limited:
		return absent(errUnlimited)
	}
	return Observation{State: Known, Available: pods.limit - pods.workingSet, Capacity: pods.limit}
}
