package status

import (
	"fmt"
	"io"
	"slices"

	"github.com/evictd/evictd/internal/wording"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
)

// WriteWhy explains where the pod with that namespace/name stands in the order for a signal, and why.
func (d *Document) WriteWhy(w io.Writer, signal pressure.Signal, key string) error {
	order, err := d.order(signal)
	signal = rankedFor(signal)
	if err != nil {
		return err
	}
	all := slices.Concat(order.Candidates, order.Protected)
	at := slices.IndexFunc(all, func(e rank.Entry) bool { return e.Pod.Key() == key })
	if at < 0 {
		return fmt.Errorf("no pod %s on node %s, or it has finished; evictd knows %d there, and evictd rank lists them", key, d.NodeName, len(all))
	}
	var r rows
	s := d.signal(signal)
	r.say("%s on node %s, ranked by %s (%s %s of %s)", key, d.NodeName, order.Resource, signal,
		figure(signal, s.Available, unknown), figure(signal, s.Capacity, unknown))
	r.add()
	r.position(&all[at], len(order.Candidates))
	r.facts(&all[at])
	for next := max(1, at); next <= at+1 && next < len(order.Candidates); next++ {
		first, second := &all[next-1], &all[next]
		key, one, other, queue := rank.Compare(first, second)
		text := fmt.Sprintf("Candidate %d, %s, goes before candidate %d, %s: %s, %s and %s",
			first.Position, first.Pod.Key(), second.Position, second.Pod.Key(), key, one, other)
		if key == rank.KeyPriority && queue != "" {
			text += " as " + queue + " counts it"
		}
		r.say("%s.", text)
	}
	return wording.Table(w, 0, r)
}

// say adds a sentence in a line of its own.
func (r *rows) say(format string, values ...any) { r.add(fmt.Sprintf(format, values...)) }

// position says where the pod stands, or what protects it and what lifts that.
func (r *rows) position(e *rank.Entry, candidates int) {
	if e.Protection == rank.NotProtected {
		r.say("It is candidate %d of %d.", e.Position, candidates)
	} else {
		r.say("It is protected and no candidate: %s.", e.Protection)
	}
	if e.Detail != "" {
		r.say("And: %s.", e.Detail)
	}
	if e.Protection != rank.NotProtected {
		r.add(Advice(e.Protection))
	}
}

// facts says what the pod uses and requests, its priority, its controller and its grace period. Of its memory
// it says both figures, one of which is the usage.
func (r *rows) facts(e *rank.Entry) {
	pod := e.Pod
	r.say("It %s.", e.Facts())
	if e.Resource == rank.Memory && pod.Sampled {
		r.say("Its end would give back %s to MemAvailable; its working set, with page cache that is in use, is %s.",
			rank.Bytes(pod.Reclaim), rank.Bytes(pod.WorkingSet))
	}
	owner := "It has no controller"
	if pod.Owner != "" {
		owner = "It belongs to " + pod.Owner
	}
	r.say("%s, and its own grace period is %d s.", owner, pod.GraceSeconds)
}

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
		rank.ProtectedAnnotation:      "It is spared for a soft threshold alone: it is a candidate while a hard threshold of the signal is met. Without the annotation, or with protect.annotations: ignore, it is one now.",
		rank.ProtectedTooYoung:        "It is spared for a soft threshold alone: it is a candidate while a hard threshold of the signal is met, once it is older, or with a smaller protect.minAge.",
		// What passes.
		rank.ProtectedReclaimTooSmall: "Near exhaustion its end is not needed beside those of larger pods.",
		rank.ProtectedBackingOff:      "Its eviction was refused a short while ago and will be tried again: the attempts of the last decisions say what refused it.",
	}[protection]
}
