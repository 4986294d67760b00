package pressure

import (
	"fmt"
	"strings"
)

// Signal is a resource that the node can run short of. The names and their meaning are the
// kubelet's (k8s.io/kubernetes pkg/kubelet/eviction/api), so that a KubeletConfiguration can
// be copied, but for KubeletMemoryAvailable and MemoryStall, which it does not have. The zero value is MemoryAvailable. Pressures are handled in the order of the
// constants, memory first because it runs out fastest.
type Signal uint8

// The signals.
const (
	// MemoryAvailable is the memory that the node can still allocate, in bytes.
	MemoryAvailable Signal = iota
	// KubeletMemoryAvailable is the kubelet's memory.available, whatever the definition of
	// MemoryAvailable is, see [WorkingSet], in bytes. The kubelet has no signal of this name.
	KubeletMemoryAvailable
	// AllocatableMemoryAvailable is the limit of the kubepods cgroup minus what its pods use by
	// the definition of MemoryAvailable, in bytes. A kubepods cgroup without a limit has no such
	// signal.
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

	// SignalCount is the number of signals; every Signal is below it.
	SignalCount
)

// Unit is what a signal's numbers count.
type Unit string

// The units.
const (
	Bytes        Unit = "bytes"
	Inodes       Unit = "inodes"
	Tasks        Unit = "tasks"
	Microseconds Unit = "microseconds"
)

// Kind is the resource that a node is short of. Pods are ranked by it and a taint is chosen
// by it. The signals of one kind share an incident, those of a filesystem one per device.
// The zero value is MemoryKind.
type Kind uint8

// The kinds.
const (
	MemoryKind Kind = iota
	PIDKind
	SpaceKind // bytes of a filesystem
	InodeKind
)

// Filesystem is one of the kubelet's names for a filesystem; two of them may be one device.
type Filesystem uint8

// The filesystems. NoFilesystem is that of a signal that is not about a disk.
const (
	NoFilesystem Filesystem = iota
	NodeFS
	ImageFS
	ContainerFS
)

// Source is where a signal is read from; its values are label values of the metrics.
type Source string

// The sources.
const (
	ProcSource       Source = "Proc"
	CgroupSource     Source = "Cgroup"
	FilesystemSource Source = "Filesystem"
)

// row holds the properties of a signal. To add a signal, add a row and a reader, see
// docs/architecture.md.
type row struct {
	name       string
	unit       Unit
	kind       Kind
	filesystem Filesystem
	source     Source
	// fastest is how fast a process that has not started yet may use up the signal, in units
	// per second. The figure for memory is what several threads of a current server fault
	// in; earlyoom assumes the same.
	fastest float64
}

// row returns the signal's properties. It is a function and not a variable, so that nothing
// in this package can be changed from outside.
func (s Signal) row() row {
	const (
		gibibyte = 1 << 30
		second   = 1_000_000 // in microseconds
	)
	return [SignalCount]row{
		MemoryAvailable:            {"memory.available", Bytes, MemoryKind, NoFilesystem, ProcSource, 6 * gibibyte},
		KubeletMemoryAvailable:     {"kubeletMemory.available", Bytes, MemoryKind, NoFilesystem, CgroupSource, 6 * gibibyte},
		AllocatableMemoryAvailable: {"allocatableMemory.available", Bytes, MemoryKind, NoFilesystem, CgroupSource, 6 * gibibyte},
		MemoryStall:                {"memory.stall", Microseconds, MemoryKind, NoFilesystem, ProcSource, second},
		NodeFSAvailable:            {"nodefs.available", Bytes, SpaceKind, NodeFS, FilesystemSource, 2 * gibibyte},
		NodeFSInodesFree:           {"nodefs.inodesFree", Inodes, InodeKind, NodeFS, FilesystemSource, 200_000},
		ImageFSAvailable:           {"imagefs.available", Bytes, SpaceKind, ImageFS, FilesystemSource, 2 * gibibyte},
		ImageFSInodesFree:          {"imagefs.inodesFree", Inodes, InodeKind, ImageFS, FilesystemSource, 200_000},
		ContainerFSAvailable:       {"containerfs.available", Bytes, SpaceKind, ContainerFS, FilesystemSource, 2 * gibibyte},
		ContainerFSInodesFree:      {"containerfs.inodesFree", Inodes, InodeKind, ContainerFS, FilesystemSource, 200_000},
		PIDAvailable:               {"pid.available", Tasks, PIDKind, NoFilesystem, ProcSource, 20_000},
	}[s]
}

// Signals returns every signal, in the order in which pressures are handled.
func Signals() []Signal {
	all := make([]Signal, 0, SignalCount)
	for s := range SignalCount {
		all = append(all, s)
	}
	return all
}

// ParseSignal returns the signal of that name. Names are case-sensitive, as in
// the kubelet.
func ParseSignal(name string) (Signal, error) {
	var known []string
	for _, s := range Signals() {
		if s.String() == name {
			return s, nil
		}
		known = append(known, s.String())
	}
	return 0, fmt.Errorf("unknown signal %q: one of %s", name, strings.Join(known, ", "))
}

// String returns the signal's name as the configuration writes it.
func (s Signal) String() string { return s.row().name }

// MarshalText writes the signal's name: its number changes when a signal is added.
func (s Signal) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads what MarshalText writes. The error lists the known names.
func (s *Signal) UnmarshalText(text []byte) (err error) {
	*s, err = ParseSignal(string(text))
	return err
}

// Unit returns what the signal's numbers count.
func (s Signal) Unit() Unit { return s.row().unit }

// Kind returns the resource that the signal is about.
func (s Signal) Kind() Kind { return s.row().kind }

// Filesystem returns the filesystem that the signal is about.
func (s Signal) Filesystem() Filesystem { return s.row().filesystem }

// OnDisk reports whether the signal is a filesystem's.
func (s Signal) OnDisk() bool { return s.Filesystem() != NoFilesystem }

// Source returns where the signal is read from.
func (s Signal) Source() Source { return s.row().source }

// CountsWorkingSet reports whether the signal counts a pod's working set as used, in which page
// cache that is in use counts, where memory.available has the given definition. Other signals
// of memory count what MemAvailable regains when the pod ends.
func (s Signal) CountsWorkingSet(definition MemoryDefinition) bool {
	return s == KubeletMemoryAvailable || s.Kind() == MemoryKind && definition == WorkingSet
}

// Kubelets returns the kubelet's signal that is read as this one, and false where the kubelet
// has none: it has no memory.stall, and its memory.available is KubeletMemoryAvailable.
func (s Signal) Kubelets() (Signal, bool) {
	if s == KubeletMemoryAvailable {
		return MemoryAvailable, true
	}
	return s, s != MemoryStall
}

// ReclaimMeasured reports whether a victim's use is reclaimed with its end, and can be measured. On a disk it
// is reclaimed some time after, and cannot be told apart from what other processes freed or used meanwhile. Of
// a stall no amount is expected.
func (s Signal) ReclaimMeasured() bool { return !s.OnDisk() && s != MemoryStall }
