package status

import "github.com/evictd/evictd/pkg/rank"

// Advice says what a protection depends on and what an administrator could change.
func Advice(protection rank.Protection) string {
	return map[rank.Protection]string{
		// What no configuration lifts.
		rank.ProtectedSelf:           "evictd never evicts itself; nothing changes that.",
		rank.ProtectedMirrorPod:      "The kubelet runs it from a file of the node, and the API cannot end it: to be rid of it, remove the file.",
		rank.ProtectedSystemCritical: "Pods of priority 2000000000 and above are never evicted, not by the kubelet either: only another priority class would change that.",
		rank.ProtectedTerminating:    "It is terminating already. Nothing is to be done unless it hangs (finalizers, volumes, its grace period).",
		rank.ProtectedFinished:       "It has ended and uses nothing that its eviction would free: delete it to be rid of the object.",
		rank.ProtectedNoUsageSample:  "Unknown is never zero: look at why its cgroup, or for disk the kubelet's figure, could not be read. A pod that has just started, or runs no process, has none.",
		// What the configuration sets.
		rank.ProtectedDaemonSet:       "It would be started here again at once. protect.daemonSets: false makes DaemonSet pods candidates.",
		rank.ProtectedNoController:    "Nothing would start it again. A controller (a Deployment, a Job) makes it a candidate, and so does protect.barePods: false.",
		rank.ProtectedPinnedToNode:    "Its controller writes spec.nodeName and would make it again right here. Let the scheduler choose the node, or set protect.pinnedPods: false.",
		rank.ProtectedPriority:        "A higher protect.priorityAtLeast, or a lower priority of the pod, makes it a candidate.",
		rank.ProtectedNamespace:       "Its namespace is in protect.namespaces: take it out to make its pods candidates.",
		rank.ProtectedPodSelector:     "Its labels match protect.podSelector: change the selector or the labels to make it a candidate.",
		rank.ProtectedWithinRequests:  "It uses no more than it requested. With protect.withinRequests: untilExhaustion it becomes a candidate when the node really runs out. With protect.withinRequests: never it would be one now, behind those that use more than they requested.",
		rank.ProtectedWithinGuarantee: "The pods of that queue use less memory together than it is guaranteed. A smaller queues[].guaranteed makes them candidates; so it does when no other candidate is left.",
		// What passes.
		rank.ProtectedReclaimTooSmall: "Near exhaustion its end is not needed beside those of larger pods.",
		rank.ProtectedBackingOff:      "Its eviction was refused a short while ago and will be tried again: the attempts of the last decisions say what refused it.",
	}[protection]
}
