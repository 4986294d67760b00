package decide

import "github.com/evictd/evictd/pkg/pressure"

// Resource is what a node is short of, so that signals about the same thing share one
// incident. The zero value is the node's memory.
type Resource struct {
	// Kind is what is counted.
	Kind pressure.Kind `json:"kind"`
	// Device is the filesystem's device number for space and inodes, as stat(2) tells it; 0
	// for memory and PIDs, and where it is not known.
	Device uint64 `json:"device,omitempty"`
}

// Known reports whether the resource can be compared: two filesystems whose devices are not known
// may be two.
func (r Resource) Known() bool {
	return r.Kind == pressure.MemoryKind || r.Kind == pressure.PIDKind || r.Device != 0
}

// ResourceOf returns what the signal's reading is about.
func ResourceOf(signal pressure.Signal, seen pressure.Observation) Resource {
	if !signal.OnDisk() {
		return Resource{Kind: signal.Kind()}
	}
	return Resource{Kind: signal.Kind(), Device: seen.Device}
}
