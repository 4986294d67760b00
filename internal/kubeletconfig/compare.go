// Package kubeletconfig reads the configuration of the node's kubelet, and compares its thresholds
// with evictd's: evictd should act first, and the kubelet should remain the backstop.
//
// The comparison is certain only about what follows from the two configurations. memory.available
// is measured by two definitions, unless evictd is configured to use the kubelet's. Then the
// current readings have to agree with the figures before anything is certain. [MemoryHeadroom] looks
// at these readings again and again.
package kubeletconfig

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/evictd/evictd/internal/wording"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
)

// Kind is what is wrong between the two.
type Kind uint8

// The kinds.
const (
	// KubeletFirst: the kubelet would evict before evictd does.
	KubeletFirst Kind = iota
	// KubeletMaybeFirst: it may, depending on how fast or by what the node fills up.
	KubeletMaybeFirst
	// BeforeImages: evictd would evict pods before the kubelet deletes unused images.
	BeforeImages
)

// Finding is one signal for which the two do not act in the order in which they should.
type Finding struct {
	Signal pressure.Signal
	Kind   Kind
	// Detail is one sentence: both values, what would happen, and what to write.
	Detail string
}

// Node is what is known of the node when the two are compared.
type Node struct {
	// Sample has the signals' capacities, and what evictd reads now.
	Sample *pressure.Sample
	// Definition is how evictd measures memory.available and allocatableMemory.available.
	Definition pressure.MemoryDefinition
	// KubeletMemory and KubeletAllocatable are the two now, as the kubelet measures them.
	KubeletMemory, KubeletAllocatable pressure.Observation
	// DedicatedImageFS says that images are not on nodefs.
	DedicatedImageFS bool
}

// Result is what a comparison came to.
type Result struct {
	// Compared are the signals for which evictd has a threshold and a reading. A signal without a
	// threshold is left to the kubelet, which is no error.
	Compared []pressure.Signal
	// Findings hold at most one of each kind of a signal, in the order of the signals.
	Findings []Finding
}

// Compare says where the kubelet would act before evictd, and where evictd would act
// before the kubelet has deleted unused images. A threshold of memory.available need not be ahead
// of one of the kubelet's where one of kubeletMemory.available is.
func Compare(ours []pressure.Threshold, kubelet *Configuration, node *Node) (result Result) {
	for _, signal := range pressure.Signals() {
		seen := node.Sample.Of(signal)
		mine := of(signal, ours, seen.Capacity)
		theirs, has := signal.Kubelets()
		missing := uncopied(signal, mine, kubelet, node)
		if len(missing) == 0 && (len(mine) == 0 || seen.State != pressure.Known || !has) {
			continue
		}
		result.Compared = append(result.Compared, signal)
		one := pair{signal, seen, mine, of(theirs, kubelet.Thresholds, seen.Capacity), kubelet, node}
		if memory := &node.KubeletMemory; signal == pressure.MemoryAvailable && memory.State == pressure.Known {
			own := of(pressure.KubeletMemoryAvailable, ours, memory.Capacity)
			one.theirs = slices.DeleteFunc(one.theirs, func(t pressure.Threshold) bool { return ahead(own, &t, memory.Capacity) })
		}
		result.Findings = slices.Concat(result.Findings, missing, one.evictions(), one.images())
	}
	return result
}

// uncopied returns that evictd has no threshold of allocatableMemory.available where the kubelet has the copy
// that it makes of its hard one of memory.available. It is in no file, so it was not left to the kubelet. Where
// the limit is not below the node's memory, a threshold of memory.available is met before.
func uncopied(signal pressure.Signal, mine []pressure.Threshold, kubelet *Configuration, node *Node) []Finding {
	seen := node.KubeletAllocatable
	theirs := of(pressure.AllocatableMemoryAvailable, kubelet.Thresholds, seen.Capacity)
	if signal != pressure.AllocatableMemoryAvailable || len(mine) > 0 || len(theirs) == 0 ||
		seen.State != pressure.Known || seen.Capacity >= node.KubeletMemory.Capacity {
		return nil
	}
	line := theirs[0].Quantity.Of(seen.Capacity)
	return []Finding{{signal, KubeletFirst, fmt.Sprintf(
		"the pods' cgroup has a limit of %s, and the kubelet evicts where less than %s of that are left, without asking budgets and with one second of grace; "+
			"evictd has no threshold there; add allocatableMemory.available: %s to evictionHard in evictd's configuration",
		wording.Amount(signal, seen.Capacity), wording.Amount(signal, line), mebibytes(2*line))}}
}

// of returns the thresholds of one signal, hard ones first and each kind from the highest
// on.
func of(signal pressure.Signal, all []pressure.Threshold, capacity int64) []pressure.Threshold {
	var some []pressure.Threshold
	for _, t := range all {
		if t.Signal == signal {
			some = append(some, t)
		}
	}
	slices.SortStableFunc(some, func(a, b pressure.Threshold) int {
		return cmp.Or(cmp.Compare(a.Kind(), b.Kind()), -cmp.Compare(a.Quantity.Of(capacity), b.Quantity.Of(capacity)))
	})
	return some
}

// pair is one signal's thresholds on both sides.
type pair struct {
	signal  pressure.Signal
	seen    pressure.Observation
	ours    []pressure.Threshold
	theirs  []pressure.Threshold
	kubelet *Configuration
	node    *Node
}

func (p *pair) line(t *pressure.Threshold) int64 { return t.Quantity.Of(p.seen.Capacity) }

// twoMeasures reports whether evictd measures the signal by another definition, and what the
// kubelet measures then.
func (p *pair) twoMeasures() (theirs pressure.Observation, two bool) {
	switch p.signal {
	case pressure.MemoryAvailable:
		return p.node.KubeletMemory, p.node.Definition != pressure.WorkingSet
	case pressure.AllocatableMemoryAvailable:
		return p.node.KubeletAllocatable, p.node.Definition != pressure.WorkingSet
	default:
		return pressure.Observation{}, false
	}
}

// evictions finds a threshold of the kubelet's that no threshold of evictd's is ahead of, see
// [ahead].
func (p *pair) evictions() []Finding {
	at := slices.IndexFunc(p.theirs, func(t pressure.Threshold) bool { return !ahead(p.ours, &t, p.seen.Capacity) })
	if at < 0 || len(p.ours) == 0 {
		return nil
	}
	theirs := &p.theirs[at]
	ours := p.rival(theirs)
	kind, readings := p.certainty(ours, theirs)
	return []Finding{{p.signal, kind, p.said(ours, theirs) + readings + "; " + p.remedy(theirs)}}
}

// ahead reports whether one of the thresholds is met sooner than the kubelet's as the signal falls,
// and waits no longer. At equal lines the kubelet, which looks every ten seconds, acts as soon as a
// victim of evictd's takes longer than that to end.
func ahead(ours []pressure.Threshold, theirs *pressure.Threshold, capacity int64) bool {
	return slices.ContainsFunc(ours, func(t pressure.Threshold) bool {
		return t.Quantity.Of(capacity) > theirs.Quantity.Of(capacity) && t.Grace <= theirs.Grace
	})
}

// rival returns the threshold of evictd's to name beside the kubelet's: the one that is
// met sooner and waits too long, else the foremost.
func (p *pair) rival(theirs *pressure.Threshold) *pressure.Threshold {
	late := slices.IndexFunc(p.ours, func(t pressure.Threshold) bool { return !theirs.Hard && p.line(&t) > p.line(theirs) })
	return &p.ours[max(late, 0)]
}

// certainty says how certain it is that the kubelet acts first, and which readings that is based on
// if the two measure differently.
func (p *pair) certainty(ours, theirs *pressure.Threshold) (Kind, string) {
	if theirs.Hard && !ours.Hard && p.line(ours) > p.line(theirs) {
		return KubeletMaybeFirst, fmt.Sprintf("; it acts first when the signal falls from the one to the other within %v", ours.Grace)
	}
	seen, two := p.twoMeasures()
	if !two {
		return KubeletFirst, ""
	}
	if seen.State != pressure.Known {
		return KubeletMaybeFirst, "; the two measure differently, and the kubelet's figure cannot be read here"
	}
	left, leftToKubelet := p.seen.Available-p.line(ours), seen.Available-p.line(theirs)
	readings := fmt.Sprintf("; the two measure differently, and now evictd's line is %s away and the kubelet's %s",
		rank.Bytes(left), rank.Bytes(leftToKubelet))
	if leftToKubelet > left {
		return KubeletMaybeFirst, readings
	}
	return KubeletFirst, readings
}

// said returns both values.
func (p *pair) said(ours, theirs *pressure.Threshold) string {
	manner := "without asking budgets"
	if theirs.Hard {
		manner += " and with one second of grace"
	}
	return fmt.Sprintf("the kubelet evicts below %s, %s; evictd below %s",
		p.written(theirs, " in "+p.file()), manner, p.written(ours, ""))
}

func (p *pair) remedy(theirs *pressure.Threshold) string {
	wait := ""
	if !theirs.Hard {
		wait = fmt.Sprintf(" with a grace period of at most %v", theirs.Grace)
	}
	text := fmt.Sprintf("write a threshold above %s%s in evictd's configuration, or a lower one in the kubelet's",
		wording.Amount(p.signal, p.line(theirs)), wait)
	if _, two := p.twoMeasures(); two && p.signal == pressure.MemoryAvailable {
		text += "; a threshold of kubeletMemory.available has the kubelet's measure"
	}
	return text
}

func (p *pair) file() string { return strings.Join(p.kubelet.Files, ", ") }

// written returns a threshold as it is written and as an amount, the field it is written
// in, and the time it waits.
func (p *pair) written(t *pressure.Threshold, where string) string {
	field := "evictionSoft"
	if t.Hard {
		field = "evictionHard"
	}
	text := wording.Amount(p.signal, p.line(t))
	if percent := t.Quantity.String(); strings.HasSuffix(percent, "%") {
		text, field = percent, text+", "+field
	}
	text += " (" + field + where + ")"
	if t.Grace > 0 {
		text += fmt.Sprintf(" for %v", t.Grace)
	}
	return text
}

// images looks for a threshold on the images' filesystem that is met before the kubelet
// deletes unused images from it: their space would have come back without an eviction.
func (p *pair) images() []Finding {
	holdsImages := p.signal == pressure.ImageFSAvailable || p.signal == pressure.NodeFSAvailable && !p.node.DedicatedImageFS
	mark := p.kubelet.ImageCollection().Of(p.seen.Capacity)
	at := slices.IndexFunc(p.ours, func(t pressure.Threshold) bool { return p.line(&t) > mark })
	if !holdsImages || mark == 0 || at < 0 {
		return nil
	}
	return []Finding{{p.signal, BeforeImages, fmt.Sprintf(
		"evictd acts below %s and evicts no pod for what unused images hold, and the kubelet deletes these only below %s (imageGCHighThresholdPercent %d in %s); "+
			"write a threshold of at most %d%% in evictd's configuration, or a lower imageGCHighThresholdPercent in the kubelet's",
		p.written(&p.ours[at], ""), wording.Amount(p.signal, mark), p.kubelet.ImageGCHighPercent, p.file(), imageGCNever+1-p.kubelet.ImageGCHighPercent)}}
}

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
