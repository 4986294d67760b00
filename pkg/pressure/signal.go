package pressure

import (
	"fmt"
	"strings"
)

// Signal is one thing a node can run short of. The names and their meaning are
// the kubelet's (k8s.io/kubernetes pkg/kubelet/eviction/api), so that a
// KubeletConfiguration can be copied. The zero value is MemoryAvailable; the
// order of the constants is the order in which pressures are dealt with, memory
// first because it runs out fastest.
type Signal uint8

// The signals.
const (
	// MemoryAvailable is the memory the node can still hand out, in bytes.
	MemoryAvailable Signal = iota
	// AllocatableMemoryAvailable is the limit of the kubepods cgroup minus its
	// working set, in bytes. A kubepods cgroup without a limit has no such signal.
	AllocatableMemoryAvailable
	// MemoryStall is the share of a window in which tasks were not stalled on
	// memory, in microseconds (kernel pressure-stall information).
	MemoryStall
	// NodeFSAvailable is the space left on the filesystem of the kubelet's root
	// directory for unprivileged users, in bytes.
	NodeFSAvailable
	// NodeFSInodesFree is the number of free inodes of the same filesystem.
	NodeFSInodesFree
	// ImageFSAvailable is the space left on the filesystem of the container
	// runtime's images, in bytes.
	ImageFSAvailable
	// ImageFSInodesFree is the number of free inodes of the same filesystem.
	ImageFSInodesFree
	// ContainerFSAvailable is the space left on the filesystem of the containers'
	// writable layers, in bytes.
	ContainerFSAvailable
	// ContainerFSInodesFree is the number of free inodes of the same filesystem.
	ContainerFSInodesFree
	// PIDAvailable is the number of tasks that can still be started on the node.
	PIDAvailable

	signalCount
)

// SignalCount is the number of signals; every Signal is below it.
const SignalCount = int(signalCount)

// names returns the signals' names in the order of the constants. A function and
// not a variable: nothing in this package can be changed from outside.
func names() [signalCount]string {
	return [signalCount]string{
		"memory.available",
		"allocatableMemory.available",
		"memory.stall",
		"nodefs.available",
		"nodefs.inodesFree",
		"imagefs.available",
		"imagefs.inodesFree",
		"containerfs.available",
		"containerfs.inodesFree",
		"pid.available",
	}
}

// Signals returns every signal in the order in which pressures are dealt with.
func Signals() []Signal {
	all := make([]Signal, 0, signalCount)
	for s := range signalCount {
		all = append(all, s)
	}
	return all
}

// ParseSignal returns the signal of that name. Names are case-sensitive, as in
// the kubelet.
func ParseSignal(name string) (Signal, error) {
	known := names()
	for s, n := range known {
		if n == name {
			return Signal(s), nil
		}
	}
	return 0, fmt.Errorf("unknown signal %q: one of %s", name, strings.Join(known[:], ", "))
}

// String returns the signal's name as the configuration writes it.
func (s Signal) String() string {
	if s >= signalCount {
		return fmt.Sprintf("Signal(%d)", uint8(s))
	}
	return names()[s]
}

// OnDisk reports whether the signal is a filesystem's.
func (s Signal) OnDisk() bool {
	switch s {
	case NodeFSAvailable, NodeFSInodesFree, ImageFSAvailable, ImageFSInodesFree, ContainerFSAvailable, ContainerFSInodesFree:
		return true
	default:
		return false
	}
}

// Unit is what a signal's numbers count.
type Unit string

// The units.
const (
	Bytes        Unit = "bytes"
	Inodes       Unit = "inodes"
	Tasks        Unit = "tasks"
	Microseconds Unit = "microseconds"
)

// Unit returns what the signal's numbers count.
func (s Signal) Unit() Unit {
	switch s {
	case NodeFSInodesFree, ImageFSInodesFree, ContainerFSInodesFree:
		return Inodes
	case PIDAvailable:
		return Tasks
	case MemoryStall:
		return Microseconds
	default:
		return Bytes
	}
}
