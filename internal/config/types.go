// Package config is evictd's configuration file: its types, its defaults, a strict reader and a
// validation that names every fault at once.
//
// The vocabulary is that of KubeletConfiguration (k8s.io/kubelet config/v1beta1), so that thresholds
// can be copied from there; what the kubelet accepts and means, evictd accepts and means the same,
// except for the list of differences in docs/configuration.md. That page is generated from the
// comments in types.go.
//
// [Load] and [Parse] return a whole configuration or an error, and [Watch] follows the file. A
// configuration made by hand in Go is neither completed nor checked; start from [Default].
package config

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/pkg/pressure"
)

//go:generate go -C ../../test run ./gendoc

// APIVersion and Kind are what every configuration file must say it is.
const (
	APIVersion = "evictd.dev/v1alpha1"
	Kind       = "EvictdConfiguration"
)

// The comments of the fields below are the tables of docs/configuration.md: run `go generate
// ./internal/config` after a change.

// EvictdConfiguration is the whole file.
type EvictdConfiguration struct {
	// Required: `evictd.dev/v1alpha1`.
	APIVersion string `json:"apiVersion"`
	// Required: `EvictdConfiguration`.
	Kind string `json:"kind"`
	// Decides and records as always, but sends every eviction as a server-side dry run, so that no pod
	// is evicted. Unset means true: write `false` for real evictions. `--dry-run` turns it on whatever
	// the file says. While the [ConfigMap evictd-stop](runbook.md#stopping-it) exists, no agent acts.
	DryRun bool `json:"dryRun"`
	// Signal to threshold: an amount (`500Mi`, or a count for inodes and PIDs) or a percentage of the
	// capacity. Met while the signal is below it, and acted upon at once. `0%` and `100%` switch a
	// signal off. Unset means the default map; anything that is set, even `{}`, replaces the whole
	// map, as in the kubelet without mergeDefaultEvictionSettings; `{}` means no hard threshold.
	EvictionHard map[string]string `json:"evictionHard"`
	// Signal to threshold, like evictionHard, but acted upon only after it has been met for its grace
	// period. Unset means the default map if evictionHard is unset too, else none; `{}` means none.
	// Must be above the hard threshold of the same signal where the two can be compared (two
	// percentages, or two amounts).
	EvictionSoft map[string]string `json:"evictionSoft"`
	// Signal to duration (`30s`, `1m30s`): how long a soft threshold must be met before it is acted
	// upon. Every soft threshold needs one. `0s` makes the threshold a hard one, as in the kubelet.
	// Unset means the default map, for the default soft thresholds only.
	EvictionSoftGracePeriod map[string]metav1.Duration `json:"evictionSoftGracePeriod"`
	// Signal to amount or percentage of the capacity: how far above the threshold, hard or soft, the
	// signal must come before a pressure is over. Once the threshold is reached again no pod is
	// evicted for this alone. Unset means none, as in the kubelet.
	EvictionMinimumReclaim map[string]string `json:"evictionMinimumReclaim"`
	// Duration: how long a signal stays reported as under pressure after its last threshold was met.
	// Unset and `0s` mean 5m, as in the kubelet's file.
	EvictionPressureTransitionPeriod metav1.Duration `json:"evictionPressureTransitionPeriod"`
	// Seconds. A soft eviction gives the pod the smaller of this and the pod's own grace period. Unset
	// and 0 mean the pod's own.
	EvictionMaxPodGracePeriod int32 `json:"evictionMaxPodGracePeriod"`
	// Seconds. A hard eviction gives the pod the smaller of this and the pod's own grace period. Unset
	// and 0 mean the pod's own. The kubelet always gives one second.
	EvictionHardPodGracePeriod int32 `json:"evictionHardPodGracePeriod"`
	// Seconds. Under hard pressure, a victim of evictd that should have ended by now, or has taken 75 s,
	// is evicted again with the smallest of this, evictionHardPodGracePeriod and what it has. The API
	// server counts the shorter grace period from the first request, so that a pod which has had that
	// long is killed at once. 0 asks no victim again. Unset means 60.
	EvictionOverdueGracePeriod int32 `json:"evictionOverdueGracePeriod"`
	// What memory.available means: `kernel` is MemAvailable of /proc/meminfo, which counts reclaimable
	// page cache as available; `workingSet` is the kubelet's definition since Kubernetes 1.37, MemTotal
	// minus the working set of the root cgroup and minus huge pages. The same for
	// allocatableMemory.available, of the limit of the pods' cgroup. Unset means `kernel`.
	MemoryAvailable pressure.MemoryDefinition `json:"memoryAvailable"`
	// A hard threshold on the time that tasks wait for lack of memory (PSI), the signal memory.stall.
	// Unset means off.
	MemoryStall *MemoryStall `json:"memoryStall,omitempty"`
	// How often evictd samples the node.
	Sampling Sampling `json:"sampling"`
	// What a PodDisruptionBudget's refusal means: with `respect` evictd tries the next candidate. With
	// `bestEffort`, under hard pressure and once no candidate could be evicted, evictd deletes one
	// whose budget refused just before, first the one whose budget is violated least; it needs rights
	// that only deploy/overlays/best-effort gives. A pod that a webhook denies, or whose owner has
	// reached limits.perOwnerPerHour, does not prevent that for other pods. Unset means `respect`.
	DisruptionBudgets DisruptionBudgets `json:"disruptionBudgets"`
	// Which pods are never evicted, beyond those that cannot be chosen: static and mirror pods, pods
	// of priority 2000000000 and above, evictd itself, and pods that are terminating or finished.
	Protect Protect `json:"protect"`
	// A tree of priority queues, in YuniKorn's terms. Unset and `[]` mean none: all pods in one order.
	// [Ranking](ranking.md#queues) says what they do.
	Queues []Queue `json:"queues,omitempty"`
	// How many pods may be evicted per minute and hour, whatever the pressure.
	Limits Limits `json:"limits"`
	// Keeps taints of evictd's own on the node until the transition period has passed:
	// `evictd.dev/memory-pressure`, `disk-pressure` or `pid-pressure`. `hard`: with the effect NoSchedule
	// while a threshold is met, also while the grace period of a soft one runs. `soft`: with
	// PreferNoSchedule for that time, and with NoSchedule too once a threshold has been met for its grace
	// period. The first eviction waits at most a second for NoSchedule, and does not depend on it. Needs
	// the right to patch nodes: deploy/overlays/taint. `true` is read as `hard`, `false` as `off`. Unset
	// means `off`.
	TaintNode TaintNode `json:"taintNode"`
	// How evictd handles disk pressure and measures the pods' disk use.
	Disk Disk `json:"disk"`
	// How evictd talks to the node's kubelet.
	Kubelet Kubelet `json:"kubelet"`
}

// MemoryStall is a threshold on the kernel's pressure-stall information. On a kernel without it the
// signal is absent and the threshold never met.
type MemoryStall struct {
	// `some` counts the time in which at least one task waits, `full` the time in which all tasks wait
	// that could run. Unset means `full`.
	Type StallType `json:"type"`
	// Percentage of the window, 1% to 99%: met while tasks waited for longer. Must be set.
	Threshold string `json:"threshold"`
	// Duration over which the stall is measured, 500ms to 1m, and at least sampling.maxInterval. Unset
	// and `0s` mean 2s.
	Window metav1.Duration `json:"window"`
}

// Sampling bounds the time between two samples. The next one is due when the nearest threshold
// could be reached at the fastest fill rate seen or assumed.
type Sampling struct {
	// Duration: the shortest time between two samples, at least 1ms. Unset and `0s` mean 10ms, or
	// maxInterval if that is shorter.
	MinInterval metav1.Duration `json:"minInterval"`
	// Duration: the longest time between two samples, at least minInterval and at most 10s. Unset and
	// `0s` mean 1s, or minInterval if that is longer.
	MaxInterval metav1.Duration `json:"maxInterval"`
}

// Protect says which pods are never evicted, or not for a soft threshold. A pod that one rule protects is protected.
type Protect struct {
	// Protects pods that a DaemonSet owns, because it would create them on this node again. Unset
	// means true.
	DaemonSets bool `json:"daemonSets"`
	// Protects pods without a controller, because nothing recreates them. Unset means true.
	BarePods bool `json:"barePods"`
	// Protects pods of a controller that writes spec.nodeName and so bypasses the scheduler: it would
	// create them on this node again. evictd detects them by their managedFields. Unset means true.
	PinnedPods bool `json:"pinnedPods"`
	// Protects pods whose spec.priority is this or higher, 1 to 2000000000; the pods at 2000000000 and
	// above are protected in any case, by the kubelet too. Unset means 2000000000.
	PriorityAtLeast int32 `json:"priorityAtLeast"`
	// Protects the pods of these namespaces: names, no patterns. Unset means kube-system; a list that
	// is set replaces it, and `[]` protects no namespace.
	Namespaces []string `json:"namespaces"`
	// Protects the pods whose labels match. Unset and `{}` select no pod, although an empty selector
	// matches every pod elsewhere in Kubernetes.
	PodSelector metav1.LabelSelector `json:"podSelector"`
	// What the annotations mean by which a pod asks not to be disrupted: `karpenter.sh/do-not-disrupt` with
	// `true`, or with a duration (`2h30m`) that counts from the pod's start and after which it ends;
	// `cluster-autoscaler.kubernetes.io/safe-to-evict` with `false`;
	// `descheduler.alpha.kubernetes.io/prefer-no-eviction` with any value. `soft`: such a pod is no
	// candidate for a soft threshold; under a hard one it is, like any other. `ignore`: nothing. Unset
	// means `soft`.
	Annotations Annotations `json:"annotations"`
	// Duration: a pod that was created less than this ago is no candidate for a soft threshold; under a
	// hard one it is, like any other. Unset means `0s`.
	MinAge metav1.Duration `json:"minAge"`
	// Protects pods that use no more than they requested of what the node is short of.
	// `untilExhaustion`: they are candidates only while a hard threshold is met and the resource is
	// [almost exhausted](ranking.md#pods-within-their-requests). `always`: they are never candidates.
	// `never`: they are candidates after the pods that use more than they requested, as in the kubelet.
	// Unset means `untilExhaustion`.
	WithinRequests decide.WithinRequests `json:"withinRequests"`
}

// Queue is one priority queue: it orders its own pods, and shows its parent the priorities that its
// properties set. A queue with neither namespaces nor podSelector has the pods of the queues below
// it.
type Queue struct {
	// Name of the queue: letters, digits, `-` and `_`, unique among its siblings.
	Name string `json:"name"`
	// Namespaces whose pods belong to the queue; `*` at the end matches any ending. They must be among
	// those of the queue above. If several queues side by side match a pod, the first one gets it. Unset
	// means those of the queue above, where podSelector chooses among them.
	Namespaces []string `json:"namespaces,omitempty"`
	// Labels a pod must have as well to belong to the queue. Unset and `{}` require none.
	PodSelector *metav1.LabelSelector `json:"podSelector,omitempty"`
	// `memory` to the amount that the queue is guaranteed: while its pods together use less, none of
	// them is evicted for memory as long as a pod of no such queue can be. Unset means none.
	Guaranteed map[string]string `json:"guaranteed,omitempty"`
	// `priority.policy` (`default`; `fence` hides the priorities inside), `priority.offset` (an int32,
	// added to the priority that the queue shows) and `application.sort.priority` (`enabled`;
	// `disabled` treats all priorities inside as 0, in the queues below too), as in YuniKorn; case
	// does not matter. Offsets add up on the path to the root and stay within int32.
	Properties map[string]string `json:"properties,omitempty"`
	// Queues below this one.
	Queues []Queue `json:"queues,omitempty"`
}

// Limits bounds how many pods evictd evicts per minute and hour. Each node has its own limits.
type Limits struct {
	// Evictions in any 60 seconds, at least 1. Unset means 6.
	EvictionsPerMinute int32 `json:"evictionsPerMinute"`
	// Evictions of pods of one controller in any 60 minutes, at least 1: evicting a pod that comes
	// straight back to the node reclaims nothing. While the limit keeps a pod from going, none behind
	// it goes in its place. Unset means 5.
	PerOwnerPerHour int32 `json:"perOwnerPerHour"`
	// Duration, 0s to 1m: the first soft eviction of an incident waits for a random part of it, so
	// that nodes that a bad rollout puts under pressure in the same second do not all evict in the
	// next. Hard evictions never wait. `0s` switches it off. Unset means 5s.
	SoftJitter metav1.Duration `json:"softJitter"`
}

// Disk says how evictd handles pressure on a filesystem and measures the pods' disk use;
// [signals.md](signals.md#disk) compares the sources. The kubelet deletes unused images and dead containers
// itself, and evicts if that does not suffice. While unused images hold what is missing, evictd
// evicts no pod for it ([images before pods](runbook.md#images-before-pods)).
type Disk struct {
	// `summary` reads the kubelet's Summary API, whose figures are a minute old. `node` measures the
	// files themselves and needs the rights and mounts of deploy/components/disk-node. Unset means
	// `summary`.
	Source DiskSource `json:"source"`
	// CPU that the source `node` may use while it measures, 10m to 1. Keep it below the container's CPU
	// limit; otherwise the kernel throttles the decisions together with the measurement. Unset means
	// `200m`.
	CPU string `json:"cpu"`
}

// Kubelet configures the requests to the node's kubelet for the pods' disk use (Summary API).
type Kubelet struct {
	// Accepts a serving certificate that the cluster's certificate authority did not sign, as kubelets
	// have that sign their own. Unset means false: under disk pressure evictd then evicts no pod if
	// the certificate cannot be verified, and reports it.
	InsecureSkipTLSVerify bool `json:"insecureSkipTLSVerify"`
}

// The types of the fields that take one of a few words. An empty one is no value: a file that
// leaves the field out gets the default's.
type (
	// DisruptionBudgets is what a budget's refusal means.
	DisruptionBudgets string
	// StallType is what counts as a stall.
	StallType string
	// DiskSource is a source of the pods' disk use.
	DiskSource string
	// TaintNode is which taints the node carries, and when.
	TaintNode string
	// Annotations is what annotations mean by which a pod asks not to be disrupted.
	Annotations string
)

// The words. The comment of the field says what each means.
const (
	BudgetsRespect    DisruptionBudgets = "respect"
	BudgetsBestEffort DisruptionBudgets = "bestEffort"

	StallSome StallType = "some"
	StallFull StallType = "full"

	DiskSummary DiskSource = "summary"
	DiskNode    DiskSource = "node"

	TaintOff  TaintNode = "off"
	TaintSoft TaintNode = "soft"
	TaintHard TaintNode = "hard"

	AnnotationsIgnore Annotations = "ignore"
	AnnotationsSoft   Annotations = "soft"
)
