package sim

import (
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evictd/evictd/internal/agent"
)

// Scenario is a node with pods whose use changes by curves, and what happens to its API server: what
// [Scenario.Play] plays.
type Scenario struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// About says in a sentence what happens.
	About string `json:"about,omitempty"`
	// Duration is how long it is played.
	Duration metav1.Duration `json:"duration"`
	Node     Machine         `json:"node"`
	Pods     []Workload      `json:"pods"`
	// API are the faults of the API server.
	API []APIFault `json:"api,omitempty"`
	// Looks takes each time that the kubelet checks its thresholds; nil takes none.
	Looks func(*Look) `json:"-"`

	killed  []time.Duration      // when evictd is killed, and its next container starts
	watches func(*play)          // looks at each step; nil does nothing
	changes func(*agent.Options) // changes evictd's parts; nil: none
}

// Machine is the node.
type Machine struct {
	// Memory is what it has in bytes, System what is used of it outside of pods.
	Memory resource.Quantity `json:"memory"`
	System Curve             `json:"system,omitzero"`
	// PodsLimit is the memory limit of all pods together, as of a node with reservations; 0 is none.
	PodsLimit resource.Quantity `json:"podsLimit,omitzero"`
	// Disk is its one filesystem; nil is a disk that never fills.
	Disk *Volume `json:"disk,omitempty"`
}

// Volume is the node's filesystem.
type Volume struct {
	// Capacity is its size in bytes, System what is used of it outside of pods and images.
	Capacity resource.Quantity `json:"capacity"`
	System   Curve             `json:"system,omitzero"`
	// UnusedImages are the images that no pod uses, in bytes. The kubelet removes them above 85 % of the capacity.
	UnusedImages Curve `json:"unusedImages,omitzero"`
}

// Workload is a controller with its pods.
type Workload struct {
	Name string `json:"name"`
	// Namespace is its own; "" is default.
	Namespace string `json:"namespace,omitempty"`
	// Controller is its kind: ReplicaSet, DaemonSet or None. "" is ReplicaSet.
	Controller string `json:"controller,omitempty"`
	// Replicas is the number of its pods; nil is one.
	Replicas *int32 `json:"replicas,omitempty"`
	// Starts is when they start, Replaced how long after the end of one the next starts; "" is 5 s, a negative one never.
	Starts   metav1.Duration  `json:"starts,omitzero"`
	Replaced *metav1.Duration `json:"replaced,omitempty"`
	// Request and Limit are of memory, in bytes; 0 is none.
	Request resource.Quantity `json:"request,omitzero"`
	Limit   resource.Quantity `json:"limit,omitzero"`
	// Priority is the pods'; those from 2000000000 on are critical.
	Priority int32 `json:"priority,omitempty"`
	// Annotations are the pods' own.
	Annotations map[string]string `json:"annotations,omitempty"`
	// Grace is their grace period, "" is 30 s; Stops is how long they need of it, "" is 1 s.
	Grace *metav1.Duration `json:"grace,omitempty"`
	Stops *metav1.Duration `json:"stops,omitempty"`
	// MaxUnavailable is that of a PodDisruptionBudget; nil is no budget.
	MaxUnavailable *int32 `json:"maxUnavailable,omitempty"`
	// Memory, Cache and Disk are what one of the pods uses: memory that cannot be reclaimed, page cache in active use, and
	// files in its writable layer.
	Memory Curve `json:"memory,omitzero"`
	Cache  Curve `json:"cache,omitzero"`
	Disk   Curve `json:"disk,omitzero"`
}

// Fault is what the API server does in place of evicting a pod.
type Fault string

// The faults.
const (
	// FaultDown: it does not answer.
	FaultDown Fault = "down"
	// FaultSlow: it answers after four seconds.
	FaultSlow Fault = "slow"
	// FaultThrottled: it is overloaded (429).
	FaultThrottled Fault = "throttled"
	// FaultDenied: it refuses (403).
	FaultDenied Fault = "denied"
)

// Faults returns all of them.
func Faults() []Fault { return []Fault{FaultDown, FaultSlow, FaultThrottled, FaultDenied} }

// APIFault is a time in which the API server has a fault.
type APIFault struct {
	Fault Fault `json:"fault"`
	// After is when it begins, For how long it lasts.
	After metav1.Duration `json:"after,omitzero"`
	For   metav1.Duration `json:"for"`
}
