package parity

// Difference is the name of a deliberate difference between evictd and the kubelet. Each has
// a line in docs/ranking.md and a test.
type Difference string

// The differences.
const (
	// NoSample: the kubelet first evicts a pod without any measurement; for evictd it is not
	// a candidate.
	NoSample Difference = "no-sample"
	// MissingFigure: the kubelet counts a missing figure as 0; for evictd the pod's usage is
	// unknown.
	MissingFigure Difference = "missing-figure"
	// Terminating: the kubelet may select a pod that is already terminating.
	Terminating Difference = "terminating"
	// DaemonSetPod: protected by default.
	DaemonSetPod Difference = "daemonset-pod"
	// BarePod: protected by default.
	BarePod Difference = "bare-pod"
	// ProtectedPriority: protect.priorityAtLeast.
	ProtectedPriority Difference = "protected-priority"
	// ProtectedNamespace: protect.namespaces.
	ProtectedNamespace Difference = "protected-namespace"
	// ProtectedSelector: protect.podSelector.
	ProtectedSelector Difference = "protected-selector"
	// EvictdItself: evictd never evicts itself.
	EvictdItself Difference = "evictd-itself"
	// Ties: of equal pods the kubelet selects any; evictd the younger, then by UID.
	Ties Difference = "ties"
	// Tasks: the kubelet counts processes, evictd also threads.
	Tasks Difference = "tasks"
	// InodeRequest: the kubelet subtracts requested bytes from inodes.
	InodeRequest Difference = "inode-request"
	// FractionOfByte: evictd rounds a request up to whole bytes.
	FractionOfByte Difference = "fraction-of-byte"
	// HostPath: the kubelet would count the content of a hostPath volume.
	HostPath Difference = "host-path"
	// MemoryMeasure: with `memoryAvailable: kernel`, the default, evictd ranks by how much a
	// pod's end adds to MemAvailable. The order that is compared with the kubelet's is that
	// with `workingSet`.
	MemoryMeasure Difference = "memory-measure"
	// RandomSignal: of several thresholds the kubelet selects any of the memory ones, or any
	// at all where there is none; evictd uses the order of the signals.
	RandomSignal Difference = "random-signal"
	// HardBeforeSoft: the kubelet acts on a soft memory threshold before a hard one of
	// another resource.
	HardBeforeSoft Difference = "hard-before-soft"
	// MissedReading: the kubelet discards a grace period and a minimum reclaim at the first
	// missing reading.
	MissedReading Difference = "missed-reading"
	// MinimumReclaim: the kubelet evicts until the minimum reclaim above a threshold is reached
	// too; evictd evicts no pod for that alone.
	MinimumReclaim Difference = "minimum-reclaim"
	// IncompleteReading: the kubelet acts on one signal while another signal of the same
	// resource that has a threshold cannot be read.
	IncompleteReading Difference = "incomplete-reading"
	// UncountedInodes: the kubelet treats a filesystem that does not count inodes as one
	// that has none left.
	UncountedInodes Difference = "uncounted-inodes"
)

// Differences returns every name, in the order of docs/ranking.md.
func Differences() []Difference {
	return []Difference{
		NoSample, MissingFigure, Terminating, DaemonSetPod, BarePod, ProtectedPriority, ProtectedNamespace,
		ProtectedSelector, EvictdItself, Ties, Tasks, InodeRequest, FractionOfByte, HostPath, MemoryMeasure,
		RandomSignal, HardBeforeSoft, MissedReading, MinimumReclaim, IncompleteReading, UncountedInodes,
	}
}
