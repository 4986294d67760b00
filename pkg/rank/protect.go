package rank

import "slices"

// SystemCriticalPriority is the lowest priority that can never be evicted: the
// kubelet's own rule (kubelettypes.IsCriticalPod, 2 × 1,000,000,000).
const SystemCriticalPriority int32 = 2000000000

// Protection is the reason why a pod may not be evicted. The empty value means
// that it may.
type Protection string

// The reasons, in the order in which they are checked; the first that applies is
// the one that is named.
const (
	// NotProtected: the pod is a candidate.
	NotProtected Protection = ""
	// ProtectedSelf: the pod is evictd.
	ProtectedSelf Protection = "Self"
	// ProtectedMirrorPod: the pod mirrors a static pod.
	ProtectedMirrorPod Protection = "MirrorPod"
	// ProtectedStaticPod: the kubelet runs the pod from a file.
	ProtectedStaticPod Protection = "StaticPod"
	// ProtectedSystemCritical: the pod's priority is that of system pods.
	ProtectedSystemCritical Protection = "SystemCritical"
	// ProtectedTerminating: the pod is already on its way out.
	ProtectedTerminating Protection = "Terminating"
	// ProtectedFinished: the pod has succeeded or failed.
	ProtectedFinished Protection = "Finished"
	// ProtectedDaemonSet: the pod would be started again here (protect.daemonSets).
	ProtectedDaemonSet Protection = "DaemonSet"
	// ProtectedNoController: nobody would start the pod again (protect.barePods).
	ProtectedNoController Protection = "NoController"
	// ProtectedPinnedToNode: the pod's controller writes spec.nodeName and would make it again
	// here (protect.pinnedPods).
	ProtectedPinnedToNode Protection = "PinnedToNode"
	// ProtectedPriority: the pod's priority is at or above protect.priorityAtLeast.
	ProtectedPriority Protection = "Priority"
	// ProtectedNamespace: the pod's namespace is in protect.namespaces.
	ProtectedNamespace Protection = "Namespace"
	// ProtectedPodSelector: the pod's labels match protect.podSelector.
	ProtectedPodSelector Protection = "PodSelector"
	// ProtectedAnnotation: the pod is annotated evictd.dev/evict: never, in a namespace
	// of protect.annotationNamespaces.
	ProtectedAnnotation Protection = "Annotation"
	// ProtectedNoUsageSample: the pod's usage is not known.
	ProtectedNoUsageSample Protection = "NoUsageSample"
	// ProtectedWithinGuarantee: the pods of its queue use less memory than the queue is
	// guaranteed, and there are candidates that are not in such a queue.
	ProtectedWithinGuarantee Protection = "WithinGuarantee"
	// ProtectedWithinRequests: the pod does not exceed its request, and the node does not
	// run out of the resource yet (protect.withinRequests). Like those below it depends on
	// more than the pods, see [Ranking.Withhold].
	ProtectedWithinRequests Protection = "WithinRequests"
	// ProtectedBackingOff: the pod was refused a short while ago. Like those below it is
	// a state of the running agent, see [Ranking.Withhold].
	ProtectedBackingOff Protection = "BackingOff"
	// ProtectedOwnerBackOff: its owner's pods came back to the node that evicted them and had
	// to go again, or as many of them went as limits.perOwnerPerHour allows.
	ProtectedOwnerBackOff Protection = "OwnerBackOff"
	// ProtectedNoPermit: its workload had no free permit a moment ago (evictionPermits.perWorkload).
	ProtectedNoPermit Protection = "NoPermit"
	// ProtectedReclaimTooSmall: its end would return less than limits.minimumReclaimShare of what is
	// missing, and the larger candidates suffice.
	ProtectedReclaimTooSmall Protection = "ReclaimTooSmall"
)

// Protections returns every reason in the order in which they are checked.
func Protections() []Protection {
	return []Protection{
		ProtectedSelf, ProtectedMirrorPod, ProtectedStaticPod, ProtectedSystemCritical,
		ProtectedTerminating, ProtectedFinished, ProtectedDaemonSet, ProtectedNoController,
		ProtectedPinnedToNode, ProtectedPriority, ProtectedNamespace, ProtectedPodSelector,
		ProtectedAnnotation, ProtectedNoUsageSample, ProtectedWithinGuarantee,
		ProtectedWithinRequests, ProtectedBackingOff, ProtectedOwnerBackOff, ProtectedNoPermit, ProtectedReclaimTooSmall,
	}
}

// Rules are the protections that an administrator chooses. The zero value
// protects nothing beyond what is never evicted.
type Rules struct {
	// DaemonSets protects pods that a DaemonSet owns.
	DaemonSets bool
	// BarePods protects pods that no controller owns.
	BarePods bool
	// PinnedPods protects pods whose controller writes spec.nodeName.
	PinnedPods bool
	// PriorityAtLeast protects pods of that priority and above. 0 and everything
	// above SystemCriticalPriority mean SystemCriticalPriority.
	PriorityAtLeast int32
	// Namespaces protects the pods of these namespaces.
	Namespaces []string
	// Queues are the priority queues below the root; nil is none: all pods in one
	// order.
	Queues []Queue
	// Selected protects the pods for whose labels it answers true; nil protects
	// none.
	Selected func(labels map[string]string) bool
	// Annotated protects the pods annotated with [Annotation]: [Never], of the namespaces
	// for which it answers true; nil lets the annotation count nowhere.
	Annotated func(namespace string) bool
}

// Protects returns why the pod may not be evicted, or NotProtected.
func (r *Rules) Protects(p *Pod) Protection {
	if reason := always(p); reason != NotProtected {
		return reason
	}
	if reason := r.chosen(p); reason != NotProtected {
		return reason
	}
	if !p.Sampled {
		return ProtectedNoUsageSample
	}
	return NotProtected
}

// always holds the protections that no configuration can lift.
func always(p *Pod) Protection {
	switch {
	case p.Marks.Self:
		return ProtectedSelf
	case p.Marks.Mirror:
		return ProtectedMirrorPod
	case p.Marks.Static:
		return ProtectedStaticPod
	case p.Priority >= SystemCriticalPriority:
		return ProtectedSystemCritical
	case p.Marks.Terminating:
		return ProtectedTerminating
	case p.Marks.Finished:
		return ProtectedFinished
	default:
		return NotProtected
	}
}

// chosen holds the protections that the configuration asks for.
func (r *Rules) chosen(p *Pod) Protection {
	if reason := r.byMaker(p); reason != NotProtected {
		return reason
	}
	switch {
	case r.PriorityAtLeast > 0 && p.Priority >= r.PriorityAtLeast:
		return ProtectedPriority
	case slices.Contains(r.Namespaces, p.Namespace):
		return ProtectedNamespace
	case r.Selected != nil && r.Selected(p.Labels):
		return ProtectedPodSelector
	case p.Evict == Never && r.counts(p.Namespace):
		return ProtectedAnnotation
	default:
		return NotProtected
	}
}

// byMaker holds the protections by who made the pod: somebody who would make it again
// here, or nobody who would make it again at all.
func (r *Rules) byMaker(p *Pod) Protection {
	switch {
	case r.DaemonSets && p.Marks.DaemonSet:
		return ProtectedDaemonSet
	case r.BarePods && p.Owner == "":
		return ProtectedNoController
	case r.PinnedPods && p.Marks.Pinned:
		return ProtectedPinnedToNode
	default:
		return NotProtected
	}
}
