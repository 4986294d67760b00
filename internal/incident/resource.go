package incident

import "github.com/evictd/evictd/pkg/pressure"

// Resource is what a node is short of, so that signals about the same thing share one
// incident. The zero value is the node's memory.
type Resource struct {
	// Kind is what is counted.
	Kind Kind `json:"kind"`
	// Device is the filesystem's device number for bytes and inodes, as stat(2) tells it; 0
	// for memory and PIDs, and where it is not known.
	Device uint64 `json:"device,omitempty"`
}

// Kind is what a resource counts.
type Kind uint8

// The kinds. All signals of memory are one kind: the same pods hold it.
const (
	Memory Kind = iota
	PIDs
	Bytes
	Inodes
)

// kindOf returns what a signal's resource counts.
func kindOf(signal pressure.Signal) Kind {
	return [...]Kind{
		pressure.MemoryKind: Memory,
		pressure.PIDKind:    PIDs,
		pressure.SpaceKind:  Bytes,
		pressure.InodeKind:  Inodes,
	}[signal.Kind()]
}

// known reports whether the resource can be compared: two filesystems whose devices are not known
// may be two.
func (r Resource) known() bool { return r.Kind == Memory || r.Kind == PIDs || r.Device != 0 }

// ResourceOf returns what the signal's reading is about.
func ResourceOf(signal pressure.Signal, seen pressure.Observation) Resource {
	kind := kindOf(signal)
	if !signal.OnDisk() {
		return Resource{Kind: kind}
	}
	return Resource{Kind: kind, Device: seen.Device}
}
