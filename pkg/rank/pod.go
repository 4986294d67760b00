package rank

import "time"

// Resource is what pods are ranked by. The zero value is Memory.
type Resource uint8

// The resources.
const (
	// Memory ranks by what the pod uses of memory, in bytes, as the signal in question
	// counts it.
	Memory Resource = iota
	// Disk ranks by bytes on the filesystem in question.
	Disk
	// Inodes ranks by inodes on the filesystem in question. Nobody can request
	// inodes, so every pod that has one exceeds its request of none.
	Inodes
	// PIDs ranks by tasks. Nobody can request tasks, and the kubelet has no
	// exceeds step for them: priority comes first.
	PIDs
)

// String returns the resource's name as it appears in messages, which is the
// kubelet's (memory, ephemeral-storage, inodes, pids).
func (r Resource) String() string {
	switch r {
	case Memory:
		return "memory"
	case Disk:
		return "ephemeral-storage"
	case Inodes:
		return "inodes"
	case PIDs:
		return "pids"
	default:
		return "unknown resource"
	}
}

// Pod is what the ranking knows of one pod.
type Pod struct {
	// Namespace, Name and UID identify the pod. UID is the API server's and the
	// last key of the order.
	Namespace, Name, UID string
	// Priority is spec.priority; a pod without one has 0.
	Priority int32
	// Created is when the pod object was made; of two pods otherwise equal the
	// younger goes first, because it has done the least work.
	Created time.Time
	// Request is what the pod asked for, in the resource's unit; 0 when it asked
	// for nothing or cannot ask.
	Request int64
	// Usage is what the pod uses, in the resource's unit. It means nothing unless
	// Sampled.
	Usage int64
	// WorkingSet and Reclaim are both figures of the pod's memory, in bytes: the working
	// set of its cgroup, and what its end gives back to the kernel's MemAvailable. One of
	// them is Usage where the resource is Memory; nothing is ranked by the other. They mean
	// nothing unless Sampled, and for a disk.
	WorkingSet, Reclaim int64
	// Sampled says that Usage was read. A pod that was not read is protected:
	// unknown is never zero.
	Sampled bool
	// GraceSeconds is spec.terminationGracePeriodSeconds; 1 where that is negative, as the
	// API server means it.
	GraceSeconds int64
	// Owner is the controller that made the pod, for example "ReplicaSet/web-5d4";
	// "" for a bare pod. OwnerUID is that controller's UID, OwnerAPIVersion the group and
	// version of its kind, for example "apps/v1".
	Owner, OwnerUID, OwnerAPIVersion string
	// Evict is the value of the pod's annotation [Annotation]; "" is none. It protects
	// where Rules.Annotated says that it counts.
	Evict string
	// Labels are the pod's labels, for Rules.Selected.
	Labels map[string]string
	// Ready says that its condition Ready is true, which is what a PodDisruptionBudget counts.
	Ready bool
	// Marks are facts that protect a pod whatever the rules say.
	Marks Marks
}

// Marks are facts about a pod that protect it or may protect it.
type Marks struct {
	// Static: the kubelet runs it from a file or URL; the API cannot end it.
	Static bool
	// Mirror: the API's image of a static pod; deleting it frees nothing.
	Mirror bool
	// Self: it is evictd.
	Self bool
	// Terminating: it has a deletion timestamp, so it is already on its way out.
	Terminating bool
	// Finished: its phase is Succeeded or Failed; nothing of it runs.
	Finished bool
	// DaemonSet: a DaemonSet owns it and would start it again on this node.
	DaemonSet bool
	// Pinned: a controller made it for this node by spec.nodeName, past the scheduler,
	// and would make it again right here.
	Pinned bool
}

// Key returns namespace/name, as logs and messages write it.
func (p *Pod) Key() string { return p.Namespace + "/" + p.Name }
