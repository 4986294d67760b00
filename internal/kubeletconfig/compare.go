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
func Compare(ours []pressure.Threshold, kubelet *Configuration, node *Node) Result {
	var result Result
	for _, signal := range pressure.Signals() {
		seen := node.Sample.Of(signal)
		mine := of(signal, ours, seen.Capacity)
		theirs, has := signal.Kubelets()
		if missing, is := uncopied(mine, kubelet, node); is && signal == pressure.AllocatableMemoryAvailable {
			result.Compared, result.Findings = append(result.Compared, signal), append(result.Findings, missing)
			continue
		}
		if len(mine) == 0 || seen.State != pressure.Known || !has {
			continue
		}
		result.Compared = append(result.Compared, signal)
		one := pair{signal, seen, mine, of(theirs, kubelet.Thresholds, seen.Capacity), kubelet, node}
		if signal == pressure.MemoryAvailable {
			memory := &node.KubeletMemory
			one.theirs = slices.DeleteFunc(one.theirs, func(t pressure.Threshold) bool {
				return memory.State == pressure.Known && ahead(of(pressure.KubeletMemoryAvailable, ours, memory.Capacity), &t, memory.Capacity)
			})
		}
		for _, look := range []func() (Finding, bool){one.evictions, one.images} {
			if found, is := look(); is {
				result.Findings = append(result.Findings, found)
			}
		}
	}
	return result
}

// uncopied returns that evictd has no threshold of allocatableMemory.available where the kubelet has the copy
// that it makes of its hard one of memory.available. It is in no file, so it was not left to the kubelet. Where
// the limit is not below the node's memory, a threshold of memory.available is met before.
func uncopied(mine []pressure.Threshold, kubelet *Configuration, node *Node) (Finding, bool) {
	const signal = pressure.AllocatableMemoryAvailable
	seen := node.KubeletAllocatable
	theirs := of(signal, kubelet.Thresholds, seen.Capacity)
	if len(mine) > 0 || len(theirs) == 0 || seen.State != pressure.Known || seen.Capacity >= node.KubeletMemory.Capacity {
		return Finding{}, false
	}
	line := theirs[0].Quantity.Of(seen.Capacity)
	return Finding{signal, KubeletFirst, fmt.Sprintf(
		"the pods' cgroup has a limit of %s, and the kubelet evicts where less than %s of that are left, without asking budgets and with one second of grace; "+
			"evictd has no threshold there; add allocatableMemory.available: %s to evictionHard in evictd's configuration",
		wording.Amount(signal, seen.Capacity), wording.Amount(signal, line), mebibytes(2*line))}, true
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
func (p *pair) evictions() (Finding, bool) {
	for i := range p.theirs {
		theirs := &p.theirs[i]
		if ahead(p.ours, theirs, p.seen.Capacity) {
			continue
		}
		ours := p.rival(theirs)
		kind, readings := p.certainty(ours, theirs)
		return Finding{p.signal, kind, p.said(ours, theirs) + readings + "; " + p.remedy(theirs)}, true
	}
	return Finding{}, false
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
	if !theirs.Hard {
		for i := range p.ours {
			if p.line(&p.ours[i]) > p.line(theirs) {
				return &p.ours[i]
			}
		}
	}
	return &p.ours[0]
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
		p.written(theirs, p.line(theirs), " in "+p.file()), manner, p.written(ours, p.line(ours), ""))
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
func (p *pair) written(t *pressure.Threshold, line int64, where string) string {
	field := "evictionSoft"
	if t.Hard {
		field = "evictionHard"
	}
	text := wording.Amount(p.signal, line)
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
// deletes unused images from it: their space would have come back without an eviction. It
// starts when the used share, rounded up to a whole percent, reaches the mark
// (k8s.io/kubernetes pkg/kubelet/images/image_gc_manager.go, GarbageCollect), and looks
// every five minutes.
func (p *pair) images() (Finding, bool) {
	const never, hundred = 100, 100
	holdsImages := p.signal == pressure.ImageFSAvailable || p.signal == pressure.NodeFSAvailable && !p.node.DedicatedImageFS
	if !holdsImages || p.kubelet.ImageGCHighPercent >= never {
		return Finding{}, false
	}
	mark := p.kubelet.ImageCollection().Of(p.seen.Capacity)
	for i := range p.ours {
		if p.line(&p.ours[i]) <= mark {
			continue
		}
		return Finding{p.signal, BeforeImages, fmt.Sprintf(
			"evictd acts below %s and evicts no pod for what unused images hold, and the kubelet deletes these only below %s (imageGCHighThresholdPercent %d in %s); "+
				"write a threshold of at most %d%% in evictd's configuration, or a lower imageGCHighThresholdPercent in the kubelet's",
			p.written(&p.ours[i], p.line(&p.ours[i]), ""), wording.Amount(p.signal, mark), p.kubelet.ImageGCHighPercent, p.file(),
			hundred+1-p.kubelet.ImageGCHighPercent)}, true
	}
	return Finding{}, false
}
