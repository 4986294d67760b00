package main

import "github.com/evictd/evictd/pkg/rank"

// advice says what a protection depends on and what an administrator could change.
func advice(protection rank.Protection) string {
	for _, text := range []string{adviceOnFixed(protection), adviceOnChosen(protection), adviceOnMoment(protection)} {
		if text != "" {
			return text
		}
	}
	return "See docs/ranking.md, Protections, for what it rests on."
}

// adviceOnFixed is for protections that no configuration lifts; "" for the others.
func adviceOnFixed(protection rank.Protection) string {
	switch protection {
	case rank.ProtectedSelf:
		return "evictd never evicts itself; nothing changes that."
	case rank.ProtectedMirrorPod, rank.ProtectedStaticPod:
		return "The kubelet runs it from a file of the node, and the API cannot end it: to be rid of it, remove the file."
	case rank.ProtectedSystemCritical:
		return "Pods of priority 2000000000 and above are never evicted, not by the kubelet either: only another priority class would change that."
	case rank.ProtectedTerminating:
		return "It is terminating already. Nothing is to be done unless it hangs (finalizers, volumes, its grace period)."
	case rank.ProtectedFinished:
		return "It has ended and uses nothing that its eviction would free: delete it to be rid of the object."
	case rank.ProtectedNoUsageSample:
		return "Unknown is never zero: look at why its cgroup, or for disk the kubelet's figure, could not be read. A pod that has just started, or runs no process, has none."
	default:
		return ""
	}
}

// adviceOnChosen is for protections that the configuration sets; "" for the others.
func adviceOnChosen(protection rank.Protection) string {
	switch protection {
	case rank.ProtectedDaemonSet:
		return "It would be started here again at once. protect.daemonSets: false makes DaemonSet pods candidates."
	case rank.ProtectedNoController:
		return "Nothing would start it again. A controller (a Deployment, a Job) makes it a candidate, and so does protect.barePods: false."
	case rank.ProtectedPinnedToNode:
		return "Its controller writes spec.nodeName and would make it again right here. Let the scheduler choose the node, or set protect.pinnedPods: false."
	case rank.ProtectedPriority:
		return "A higher protect.priorityAtLeast, or a lower priority of the pod, makes it a candidate."
	case rank.ProtectedNamespace:
		return "Its namespace is in protect.namespaces: take it out to make its pods candidates."
	case rank.ProtectedPodSelector:
		return "Its labels match protect.podSelector: change the selector or the labels to make it a candidate."
	case rank.ProtectedAnnotation:
		return "It is annotated evictd.dev/evict: never, and protect.annotationNamespaces names its namespace: remove either."
	case rank.ProtectedWithinRequests:
		return "It uses no more than it requested. With protect.withinRequests: untilExhaustion it becomes a candidate when the node really runs out. With protect.withinRequests: never it would be one now, behind those that use more than they requested."
	case rank.ProtectedWithinGuarantee:
		return "The pods of that queue use less memory together than it is guaranteed. A smaller queues[].guaranteed makes them candidates; so it does when no other candidate is left."
	default:
		return ""
	}
}

// adviceOnMoment is for states that only a running agent knows, so that only a decision
// names them and not this command; "" for the others.
func adviceOnMoment(protection rank.Protection) string {
	switch protection {
	case rank.ProtectedReclaimTooSmall:
		return "Near exhaustion its end is not needed beside those of larger pods."
	case rank.ProtectedBackingOff:
		return "Its eviction was refused a short while ago and will be retried: the decision's attempts say what refused it."
	default:
		return ""
	}
}
