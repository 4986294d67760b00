package rank

import "time"

// Resource is what pods are ranked for. The zero value is Memory.
type Resource uint8

// The resources.
const (
	// Memory ranks by the pod's memory usage, in bytes, as the signal counts it.
	Memory Resource = iota
	// Disk ranks by bytes on the signal's filesystem.
	Disk
	// Inodes ranks by inodes on the signal's filesystem. Inodes cannot be requested, so
	// every pod that uses one exceeds its request of 0.
	Inodes
	// PIDs ranks by tasks. Tasks cannot be requested, and the kubelet has no exceeds step
	// for them: priority comes first.
	PIDs
)

// String returns the resource's name as it appears in messages, which is the kubelet's.
func (r Resource) String() string {
	return [...]string{Memory: "memory", Disk: "ephemeral-storage", Inodes: "inodes", PIDs: "pids"}[r]
}

// Pod holds the facts that the ranking uses for one pod. Its JSON is for records.
type Pod struct {
	// Namespace, Name and UID identify the pod. UID is the API server's and the
	// last key of the order.
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
	// Priority is spec.priority; a pod without one has 0.
	Priority int32 `json:"priority,omitempty"`
	// Created is when the pod object was created; of two otherwise equal pods the younger is
	// evicted first, because it has done less work.
	Created time.Time `json:"created,omitzero"`
	// Request is the pod's request, in the resource's unit; 0 when it has none or the
	// resource cannot be requested.
	Request int64 `json:"request,omitempty"`
	// Usage is what the pod uses, in the resource's unit. It is valid only when Sampled.
	Usage int64 `json:"usage,omitempty"`
	// WorkingSet and Reclaim are two figures of the pod's memory, in bytes: the working set
	// of its cgroup, and how much its end adds to the kernel's MemAvailable. One of them is
	// Usage where the resource is Memory; the other does not affect the ranking. They are
	// valid only when Sampled, and for a disk.
	WorkingSet int64 `json:"workingSet,omitempty"`
	Reclaim    int64 `json:"reclaim,omitempty"`
	// Sampled says that Usage was read. A pod whose usage was not read is protected: unknown
	// is never zero.
	Sampled bool `json:"sampled,omitempty"`
	// GraceSeconds is spec.terminationGracePeriodSeconds; 1 where that is negative, as in
	// the API server (k8s.io/apiserver pkg/registry/rest/delete.go, BeforeDelete).
	GraceSeconds int64 `json:"gracePeriodSeconds"`
	// Owner is the controller that created the pod, for example "ReplicaSet/web-5d4"; "" for
	// a bare pod. OwnerUID is that controller's UID.
	Owner    string `json:"owner,omitempty"`
	OwnerUID string `json:"ownerUID,omitempty"`
	// Labels are the pod's labels, for Rules.Selected: at least those that it asks for. They must not
	// be changed. LabelsHash is the same for pods with the same labels, in one process.
	Labels     map[string]string `json:"labels,omitempty"`
	LabelsHash uint64            `json:"-"`
	// Annotation is the key of an annotation by which it asks not to be disrupted; "" where there is none.
	// AnnotationUntil is when that ends; the zero time where it does not.
	Annotation      string    `json:"annotation,omitempty"`
	AnnotationUntil time.Time `json:"annotationUntil,omitzero"`
	// Ready says that its condition Ready is true, which is what a PodDisruptionBudget counts.
	Ready bool `json:"ready,omitempty"`

	Marks
}

// Marks are facts about a pod that protect it or may protect it, some of them under any rules.
type Marks struct {
	// Mirror: the API object of a static pod, which the kubelet runs from a file or URL. The API
	// cannot end that pod; deleting its mirror reclaims nothing.
	Mirror bool `json:"mirror,omitempty"`
	// Self: it is evictd.
	Self bool `json:"self,omitempty"`
	// Terminating: it has a deletion timestamp.
	Terminating bool `json:"terminating,omitempty"`
	// Finished: its phase is Succeeded or Failed; none of its processes run, and none is started again.
	Finished bool `json:"finished,omitempty"`
	// DaemonSet: a DaemonSet owns it and would create it again on this node.
	DaemonSet bool `json:"daemonSet,omitempty"`
	// Pinned: a controller created it for this node by spec.nodeName, bypassing the
	// scheduler, and would create it again on this node.
	Pinned bool `json:"pinned,omitempty"`
}

// Key returns namespace/name, as logs and messages write it.
func (p *Pod) Key() string { return p.Namespace + "/" + p.Name }
