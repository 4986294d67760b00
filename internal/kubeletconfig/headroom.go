package kubeletconfig

import (
	"fmt"

	"github.com/evictd/evictd/internal/wording"
	"github.com/evictd/evictd/pkg/pressure"
)

// Headroom is how far the node's memory is above the kubelet's hard threshold, by the kubelet's
// measure.
type Headroom struct {
	// Bytes is what is available above the threshold; negative below it.
	Bytes int64
	// Near says that this threshold is near and no hard one of evictd's is: page cache in use
	// makes the difference, and the kubelet would evict first. Detail is one sentence then: both
	// figures, what would happen, and what to write.
	Near   bool
	Detail string
}

// nearest is how near the kubelet's threshold is called near, in bytes, where a tenth of the
// threshold is less. The kubelet looks every ten seconds: this is what 10 MiB a second take
// between two looks. The other is for large nodes, whose kubelets have thresholds of gibibytes.
const nearest = 100 << 20

// margin returns how near is near for a threshold of the kubelet's, in bytes.
func margin(line int64) int64 { return max(nearest, line/10) }

// MemoryHeadroom compares the node's memory with the kubelet's hard threshold of memory.available;
// false where it has none, or where the reading is not known. Near is what the comparison before
// said: it lasts until the node is twice as far from the threshold as it was when it began.
func MemoryHeadroom(ours []pressure.Threshold, kubelet *Configuration, node *Node, near bool) (Headroom, bool) {
	memory := node.KubeletMemory
	theirs := of(pressure.MemoryAvailable, kubelet.Thresholds, memory.Capacity)
	if memory.State != pressure.Known || len(theirs) == 0 || !theirs[0].Hard {
		return Headroom{}, false
	}
	line := theirs[0].Quantity.Of(memory.Capacity)
	h := Headroom{Bytes: memory.Available - line}
	begins, ends := margin(line), 2*margin(line)
	seen := node.Sample.Of(pressure.MemoryAvailable)
	own := of(pressure.MemoryAvailable, ours, seen.Capacity)
	switch {
	case h.Bytes > ends, h.Bytes > begins && !near:
	case ahead(of(pressure.KubeletMemoryAvailable, ours, memory.Capacity), &theirs[0], memory.Capacity):
	case seen.State != pressure.Known, len(own) == 0, !own[0].Hard: // left to the kubelet, or said by Compare
	default:
		h.Near = seen.Available-own[0].Quantity.Of(seen.Capacity) > begins
	}
	if h.Near {
		one := pair{pressure.MemoryAvailable, seen, own, theirs, kubelet, node}
		h.Detail = fmt.Sprintf(
			"by the kubelet's measure, in which page cache in use is not available, %s are left, and %s; memory.available is %s; "+
				"add kubeletMemory.available: %s to evictionHard in evictd's configuration, so that evictd evicts first, with the pod's own grace period",
			wording.Amount(pressure.MemoryAvailable, memory.Available), one.said(&own[0], &theirs[0]),
			wording.Amount(pressure.MemoryAvailable, seen.Available), mebibytes(line+begins))
	}
	return h, true
}

// mebibytes returns an amount as a configuration writes it, rounded up.
func mebibytes(bytes int64) string {
	const mebibyte = 1 << 20
	return fmt.Sprintf("%dMi", (bytes+mebibyte-1)/mebibyte)
}
