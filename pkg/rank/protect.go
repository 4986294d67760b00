package rank

import (
	"fmt"
	"slices"
	"time"
)

// SystemCriticalPriority is the lowest priority that can never be evicted: the
// kubelet's own rule (kubelettypes.IsCriticalPod, 2 × 1,000,000,000).
const SystemCriticalPriority int32 = 2000000000

// Protection is the reason why a pod may not be evicted. The empty value means that it may.
type Protection string

// The reasons, in the order in which they are checked; the first that applies is reported.
const (
	// NotProtected: the pod is a candidate.
	NotProtected Protection = ""
	// ProtectedSelf: the pod is evictd.
	ProtectedSelf Protection = "Self"
	// ProtectedMirrorPod: the pod is the API's image of a static pod.
	ProtectedMirrorPod Protection = "MirrorPod"
	// ProtectedSystemCritical: the pod's priority is that of system pods.
	ProtectedSystemCritical Protection = "SystemCritical"
	// ProtectedTerminating: the pod is already terminating.
	ProtectedTerminating Protection = "Terminating"
	// ProtectedFinished: the pod has succeeded or failed.
	ProtectedFinished Protection = "Finished"
	// ProtectedDaemonSet: the pod would be created again on this node (protect.daemonSets).
	ProtectedDaemonSet Protection = "DaemonSet"
	// ProtectedNoController: no controller would create the pod again (protect.barePods).
	ProtectedNoController Protection = "NoController"
	// ProtectedPinnedToNode: the pod's controller sets spec.nodeName and would create the
	// pod again on this node (protect.pinnedPods).
	ProtectedPinnedToNode Protection = "PinnedToNode"
	// ProtectedPriority: the pod's priority is at or above protect.priorityAtLeast.
	ProtectedPriority Protection = "Priority"
	// ProtectedNamespace: the pod's namespace is in protect.namespaces.
	ProtectedNamespace Protection = "Namespace"
	// ProtectedPodSelector: the pod's labels match protect.podSelector.
	ProtectedPodSelector Protection = "PodSelector"
	// ProtectedNoUsageSample: the pod's usage is unknown.
	ProtectedNoUsageSample Protection = "NoUsageSample"
	// ProtectedWithinGuarantee: the pods of its queue use less memory than the queue's
	// guarantee, and there are candidates outside of such queues.
	ProtectedWithinGuarantee Protection = "WithinGuarantee"
	// ProtectedWithinRequests: the pod does not exceed its request, and the node is not
	// about to run out of the resource (protect.withinRequests). Like the reasons below it
	// depends on more than the pods, see [Ranking.Withhold].
	ProtectedWithinRequests Protection = "WithinRequests"
	// ProtectedAnnotation: the pod asks by an annotation not to be disrupted, and no hard threshold is met
	// (protect.annotations).
	ProtectedAnnotation Protection = "Annotation"
	// ProtectedTooYoung: the pod is younger than protect.minAge, and no hard threshold is met.
	ProtectedTooYoung Protection = "TooYoung"
	// ProtectedReclaimTooSmall: near exhaustion the pod's end is not needed beside those of larger
	// ones.
	ProtectedReclaimTooSmall Protection = "ReclaimTooSmall"
	// ProtectedBackingOff: the pod's eviction was refused a short while ago. Like the
	// reasons below it is a state of the running agent, see [Ranking.Withhold].
	ProtectedBackingOff Protection = "BackingOff"
)

// Rules are the configurable protections. The zero value protects only the pods that are
// never evicted.
type Rules struct {
	// DaemonSets protects pods that a DaemonSet owns.
	DaemonSets bool
	// BarePods protects pods that no controller owns.
	BarePods bool
	// PinnedPods protects pods whose controller writes spec.nodeName.
	PinnedPods bool
	// PriorityAtLeast protects pods of that priority and above. 0 and every value above
	// SystemCriticalPriority mean SystemCriticalPriority.
	PriorityAtLeast int32
	// Namespaces protects the pods of these namespaces.
	Namespaces []string
	// Queues are the priority queues below the root; nil is none: one order for all pods.
	Queues []Queue
	// Selected protects the pods for whose labels it returns true; nil protects none.
	Selected func(labels map[string]string) bool
	// Annotated spares the pods that ask by an annotation not to be disrupted, and MinAge those that are
	// younger; 0 spares none of these. Both hold under a soft threshold alone, see [Rules.Spare].
	Annotated bool
	MinAge    time.Duration
}

// Protects returns why the pod may not be evicted, or NotProtected.
func (r *Rules) Protects(p *Pod) Protection {
	for _, rule := range [...]struct {
		reason Protection
		holds  bool
	}{
		// No configuration can lift these.
		{ProtectedSelf, p.Self},
		{ProtectedMirrorPod, p.Mirror},
		{ProtectedSystemCritical, p.Priority >= SystemCriticalPriority},
		{ProtectedTerminating, p.Terminating},
		{ProtectedFinished, p.Finished},
		// The pod's controller would create it again on this node, or none would create it again.
		{ProtectedDaemonSet, r.DaemonSets && p.DaemonSet},
		{ProtectedNoController, r.BarePods && p.Owner == ""},
		{ProtectedPinnedToNode, r.PinnedPods && p.Pinned},
		// The configuration names it.
		{ProtectedPriority, r.PriorityAtLeast > 0 && p.Priority >= r.PriorityAtLeast},
		{ProtectedNamespace, slices.Contains(r.Namespaces, p.Namespace)},
		{ProtectedPodSelector, r.Selected != nil && r.Selected(p.Labels)},
		// Unknown is never zero.
		{ProtectedNoUsageSample, !p.Sampled},
	} {
		if rule.holds {
			return rule.reason
		}
	}
	return NotProtected
}

// Spare protects the candidates that the rules spare at that time while no hard threshold is met, and returns
// how many.
func (r *Rules) Spare(ranking *Ranking, now time.Time) (spared int) {
	ranking.Withhold(func(e *Entry) Protection {
		why, detail := r.spares(e.Pod, now)
		if why != NotProtected {
			e.Detail = detail
			spared++
		}
		return why
	})
	return spared
}

// spares returns why the pod is spared, with a clause about it. A pod's age counts from its creation.
func (r *Rules) spares(p *Pod, now time.Time) (why Protection, detail string) {
	age, until := max(0, now.Sub(p.Created)), p.AnnotationUntil
	switch {
	case r.Annotated && p.Annotation != "" && until.IsZero():
		return ProtectedAnnotation, "annotation " + p.Annotation
	case r.Annotated && p.Annotation != "" && now.Before(until):
		return ProtectedAnnotation, "annotation " + p.Annotation + " until " + until.UTC().Format(time.RFC3339)
	case age < r.MinAge:
		return ProtectedTooYoung, fmt.Sprintf("it is %v old, and protect.minAge is %v", age.Truncate(time.Second), r.MinAge)
	}
	return NotProtected, ""
}
