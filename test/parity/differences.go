package parity

// Difference is the name of a deliberate difference between evictd and the kubelet. Each has
// a line in docs/ranking.md, which says what it is, and a test.
type Difference string

// The differences, in the order of docs/ranking.md.
const (
	NoSample           Difference = "no-sample"
	MissingFigure      Difference = "missing-figure"
	Terminating        Difference = "terminating"
	DaemonSetPod       Difference = "daemonset-pod"
	BarePod            Difference = "bare-pod"
	ProtectedPriority  Difference = "protected-priority"
	ProtectedNamespace Difference = "protected-namespace"
	ProtectedSelector  Difference = "protected-selector"
	EvictdItself       Difference = "evictd-itself"
	Ties               Difference = "ties"
	Tasks              Difference = "tasks"
	InodeRequest       Difference = "inode-request"
	FractionOfByte     Difference = "fraction-of-byte"
	HostPath           Difference = "host-path"
	// MemoryMeasure: the order that is compared with the kubelet's is that by the working set.
	MemoryMeasure     Difference = "memory-measure"
	RandomSignal      Difference = "random-signal"
	HardBeforeSoft    Difference = "hard-before-soft"
	MissedReading     Difference = "missed-reading"
	MinimumReclaim    Difference = "minimum-reclaim"
	IncompleteReading Difference = "incomplete-reading"
	UncountedInodes   Difference = "uncounted-inodes"
)

// Differences returns every name, in the order of docs/ranking.md.
func Differences() []Difference {
	return []Difference{
		NoSample, MissingFigure, Terminating, DaemonSetPod, BarePod, ProtectedPriority, ProtectedNamespace,
		ProtectedSelector, EvictdItself, Ties, Tasks, InodeRequest, FractionOfByte, HostPath, MemoryMeasure,
		RandomSignal, HardBeforeSoft, MissedReading, MinimumReclaim, IncompleteReading, UncountedInodes,
	}
}
