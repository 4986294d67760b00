package parity

// Difference is the name of something that evictd does otherwise than the kubelet,
// on purpose. Each has a line in docs/ranking.md and a test.
type Difference string

// The differences.
const (
	// NoSample: the kubelet takes a pod first of which nothing is measured; to evictd
	// it is no candidate.
	NoSample Difference = "no-sample"
	// MissingFigure: the kubelet counts a figure that is missing as 0; to evictd the
	// pod's usage is unknown.
	MissingFigure Difference = "missing-figure"
	// Terminating: the kubelet may take a pod that is on its way out.
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
	// Ties: of equal pods the kubelet takes any; evictd the younger, then by UID.
	Ties Difference = "ties"
	// Tasks: the kubelet counts processes, evictd threads too.
	Tasks Difference = "tasks"
	// InodeRequest: the kubelet subtracts requested bytes from inodes.
	InodeRequest Difference = "inode-request"
	// FractionOfByte: evictd rounds a request up to whole bytes.
	FractionOfByte Difference = "fraction-of-byte"
	// HostPath: the kubelet would count what a hostPath volume holds.
	HostPath Difference = "host-path"
	// MemoryMeasure: with `memoryAvailable: kernel`, the default, evictd ranks by what a
	// pod's end gives back to MemAvailable. What is compared with the kubelet's order is
	// that with `workingSet`.
	MemoryMeasure Difference = "memory-measure"
	// RandomSignal: of several thresholds the kubelet takes any of the memory ones, or
	// any at all where there is none; evictd goes by the signals' order.
	RandomSignal Difference = "random-signal"
	// HardBeforeSoft: the kubelet takes a soft memory threshold before a hard one of
	// another resource.
	HardBeforeSoft Difference = "hard-before-soft"
	// MissedReading: the kubelet forgets a grace period and a minimum reclaim at the
	// first reading that is missing.
	MissedReading Difference = "missed-reading"
	// IncompleteReading: the kubelet acts on one signal while another of the same
	// resource, that has a threshold, cannot be read.
	IncompleteReading Difference = "incomplete-reading"
	// UncountedInodes: the kubelet takes a filesystem that does not count inodes for
	// one that has none left.
	UncountedInodes Difference = "uncounted-inodes"
	// GraceForecast: evictd ends a grace period early when the hard threshold is near.
	GraceForecast Difference = "grace-forecast"
)

// Differences returns every name, in the order of docs/ranking.md.
func Differences() []Difference {
	return []Difference{
		NoSample, MissingFigure, Terminating, DaemonSetPod, BarePod, ProtectedPriority, ProtectedNamespace,
		ProtectedSelector, EvictdItself, Ties, Tasks, InodeRequest, FractionOfByte, HostPath, MemoryMeasure,
		RandomSignal, HardBeforeSoft, MissedReading, IncompleteReading, UncountedInodes, GraceForecast,
	}
}
