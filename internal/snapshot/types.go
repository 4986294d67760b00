// Package snapshot holds what `evictd rank` saw of one node, as docs/snapshot.md describes it, so
// that the same code can rank it again elsewhere. It records inputs and never results. Unknown
// is never 0: what was not read is missing in the document, and what must be there is required.
package snapshot

import (
	"time"

	"github.com/evictd/evictd/internal/config"
	"github.com/evictd/evictd/internal/nodepods"
	"github.com/evictd/evictd/pkg/evict"
	"github.com/evictd/evictd/pkg/pressure"
)

// APIVersion and Kind are what every snapshot says it is.
const (
	APIVersion = "evictd.dev/v1alpha1"
	Kind       = "NodeSnapshot"
)

// NodeSnapshot is what was seen of one node at one moment.
type NodeSnapshot struct {
	// APIVersion and Kind are the constants of this package.
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// EvictdVersion is that of the evictd that saw the node.
	EvictdVersion string `json:"evictdVersion"`
	// Time is taken just before the node was read.
	Time time.Time `json:"time"`
	// NodeName is the node's name in the API.
	NodeName string `json:"nodeName"`
	// Self is evictd's own pod; the zero value is none.
	Self nodepods.Self `json:"self,omitzero"`
	// Configuration is the one in force, with every default spelled out.
	Configuration *config.EvictdConfiguration `json:"configuration"`
	// Signals are the node's own figures; nil when none was read. The order does not
	// depend on them, only whether pods within their requests are candidates.
	Signals []Signal `json:"signals,omitempty"`
	// Pods are the node's.
	Pods []*nodepods.Pod `json:"pods"`
	// Usage is what the pods' cgroups say. A pod that is not in it was not read.
	Usage []Usage `json:"usage"`
	// UsageUnread says why pods are missing in Usage; "" when all were read.
	UsageUnread string `json:"usageUnread,omitempty"`
	// Disk is what the pods use of the node's disk; nil when it was not measured.
	Disk []Disk `json:"disk,omitzero"`
	// DiskUnmeasured says why Disk is nil; "" when it was not requested.
	DiskUnmeasured string `json:"diskUnmeasured,omitempty"`
	// Budgets are the results of server-side dry runs; nil when there were none.
	Budgets []Budget `json:"budgets,omitempty"`
}

// Signal is the reading of one signal.
type Signal struct {
	// Name is the signal's, for example memory.available.
	Name string `json:"name"`
	// State is known, unknown or absent, as package pressure has them.
	State string `json:"state"`
	// Available and Capacity are in the signal's unit; nil unless the state is known.
	// Available may be negative.
	Available *int64 `json:"available,omitempty"`
	Capacity  *int64 `json:"capacity,omitempty"`
	// Reason says why the state is not known; "" when it is.
	Reason string `json:"reason,omitempty"`
}

// Usage is what one pod's cgroup says.
type Usage struct {
	// UID is the one in the cgroup's name: the pod's, or a static pod's hash.
	UID string `json:"uid"`
	// WorkingSet, Anonymous and Shared are in bytes, as in usage.Pod.
	WorkingSet int64 `json:"workingSet"`
	Anonymous  int64 `json:"anonymous"`
	Shared     int64 `json:"shared"`
	// Kernel is in bytes, as in usage.Pod; nil when it is not known.
	Kernel *int64 `json:"kernel,omitempty"`
	// Tasks counts processes and threads; nil when it is not known.
	Tasks *int64 `json:"tasks,omitempty"`
}

// Disk is what one pod uses of the node's filesystems.
type Disk struct {
	// UID is the pod's in the API.
	UID string `json:"uid"`
	// NodeFS and ImageFS are the same figures on a node with one filesystem.
	NodeFS  Filesystem `json:"nodefs"`
	ImageFS Filesystem `json:"imagefs"`
	// Time is when the oldest figure was taken; zero when one carries no time.
	Time time.Time `json:"time,omitzero"`
}

// Filesystem is what one pod uses of one filesystem.
type Filesystem struct {
	// Bytes and Inodes are nil when they are not known.
	Bytes  *int64 `json:"bytes,omitempty"`
	Inodes *int64 `json:"inodes,omitempty"`
}

// Budget is what the API server answered to a dry run of one pod's eviction.
type Budget struct {
	// UID is the pod's.
	UID string `json:"uid"`
	// Outcome is the answer's name, never Evicted.
	Outcome evict.Outcome `json:"outcome"`
	// Budget is the PodDisruptionBudget that refused; "" when none is named.
	Budget string `json:"budget,omitempty"`
	// Message is the API server's text; "" when it would have been accepted.
	Message string `json:"message,omitempty"`
}

// NewSignal returns the record of a reading.
func NewSignal(signal pressure.Signal, seen pressure.Observation) Signal {
	recorded := Signal{Name: signal.String(), State: seen.State.String()}
	if seen.State == pressure.Known {
		recorded.Available, recorded.Capacity = &seen.Available, &seen.Capacity
	}
	if seen.Err != nil {
		recorded.Reason = seen.Err.Error()
	}
	return recorded
}

// Of returns the reading of one signal; false when it is not in the snapshot.
func (s *NodeSnapshot) Of(signal pressure.Signal) (Signal, bool) {
	for _, recorded := range s.Signals {
		if recorded.Name == signal.String() {
			return recorded, true
		}
	}
	return Signal{}, false
}
