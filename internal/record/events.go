package record

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/pkg/evict"
	"github.com/evictd/evictd/pkg/rank"
)

// messageLimit is the API's limit for an Event's text, in bytes.
const messageLimit = 1024

// EventWriter takes Kubernetes Events, as client-go's record.EventRecorder and
// [Events] do. The objects are ObjectReferences. It must not wait for the API server.
type EventWriter interface {
	AnnotatedEventf(object runtime.Object, annotations map[string]string, eventtype, reason, format string, args ...any)
}

// event is an Event: its reason, its type, and its text, in which each {word} is replaced.
type event struct{ reason, kind, text string }

// again is before the outcome of a request for a pod that was a victim already.
const again = "again "

// The reasons of Events that are about no request. They are on the node, but for EvictionStuck, which is on the
// victim; ConfigurationRefused is on evictd's own pod too.
const (
	reasonStuck   = "EvictionStuck"
	reasonHeld    = "EvictionHeld"
	reasonRefused = "ConfigurationRefused"
	reasonStopped = "EvictionsStopped" // by the ConfigMap, or whether it exists is not known
	reasonResumed = "EvictionsResumed"
)

// eventTable returns every Event by what it is about: the outcome of a request, which is written on
// the pod and on its controller, or its own reason.
func eventTable() map[string]event {
	const (
		warning, normal = corev1.EventTypeWarning, corev1.EventTypeNormal
		would           = "Dry run, nothing happens to it: evictd would "
		pastBudget      = " {pod} bypassing {budget}, which wants {wants} healthy pods and has {has}: no candidate could be evicted, and disruptionBudgets is bestEffort."
		overdue         = " again for {pod}, which is terminating and should have ended by now."
	)
	return map[string]event{
		string(evict.Evicted):            {"EvictionRequested", warning, "evictd evicts {pod}."},
		string(evict.WouldEvict):         {"WouldBeEvicted", warning, would + "evict {pod}.{why}"},
		string(evict.Deleted):            {"BypassedPDB", warning, "evictd deletes" + pastBudget},
		string(evict.WouldDelete):        {"WouldBypassPDB", warning, would + "delete" + pastBudget + "{why}"},
		again + string(evict.Evicted):    {"EvictionEscalated", warning, "evictd asks" + overdue},
		again + string(evict.WouldEvict): {"WouldBeEscalated", warning, would + "ask" + overdue + "{why}"},
		string(evict.BlockedByBudget):    {"EvictionBlocked", warning, "{dry}evictd may not evict {pod}: {budget} allows no disruption now{answer}."},
		string(evict.BudgetPending):      {"EvictionBlocked", warning, "{dry}evictd may not evict {pod} yet: {budget} is still being processed{answer}."},
		string(evict.Denied):             {"EvictionDenied", warning, "{dry}evictd may not evict {pod}: the API server denies it{answer}."},
		string(evict.Evacuating):         {"EvictionDenied", warning, "{dry}evictd asked to evict {pod}, and admission moves it away by its own means{answer}."},
		string(evict.Misconfigured):      {"EvictionMisconfigured", warning, "{dry}evictd cannot evict {pod} until its PodDisruptionBudgets are fixed: more than one PodDisruptionBudget selects it{answer}."},
		string(evict.Unconfirmed):        {"EvictionUnconfirmed", warning, "{dry}evictd requested the eviction of {pod} and got no answer{doubt}{answer}."},

		reasonStuck: {reasonStuck, warning, "evictd evicted this pod for {signal}, it should have ended by {deadline} and has not: evictd does not rely on its end any more. " +
			"Look for finalizers, volumes that do not unmount, or a container runtime that hangs."},
		reasonHeld:    {reasonHeld, warning, "{dry}evictd evicts no pod: {hold}{answer}. {shortage}"},
		reasonRefused: {reasonRefused, warning, "evictd refuses {what}: {error}"},
		reasonStopped: {reasonStopped, warning, "{state}; {do}. Until then its evictions are server-side dry runs."},
		reasonResumed: {reasonResumed, normal, "It is not stopped any more: {state}."},
	}
}

// tell writes the Event of a reason.
func (r *Recorder) tell(on *corev1.ObjectReference, reason string, words ...string) {
	e := eventTable()[reason]
	r.write(on, nil, &e, words)
}

// onNode writes the Event of a reason on the node.
func (r *Recorder) onNode(reason string, words ...string) {
	r.tell(nodeReference(r.settings.NodeName), reason, words...)
}

func (r *Recorder) write(on *corev1.ObjectReference, annotations map[string]string, e *event, words []string) {
	text := strings.NewReplacer(words...).Replace(e.text)
	r.events.AnnotatedEventf(on, annotations, e.kind, e.reason, "%s", shorten(text, messageLimit))
}

// writeEvents writes the Events of a decision: two for each pod that was tried, on the pod and on
// its controller, or one on the node when no pod can be evicted, once for each hold of a threshold.
func (r *Recorder) writeEvents(d *decide.Decision) {
	for i := range d.Attempts {
		r.tellAttempt(d, &d.Attempts[i])
	}
	if at := thresholdOf(&d.Pressure); !concernsNode(d) {
		r.over(at)
	} else if r.news(at, string(d.Hold)) {
		r.onNode(reasonHeld, r.heldWords(d)...)
	}
}

// tellAttempt writes what became of a request, where that concerns the pod. On its controller the owner
// of several pods sees which of them was evicted; a pod without a controller has no such Event.
func (r *Recorder) tellAttempt(d *decide.Decision, a *decide.Attempt) {
	table, outcome := eventTable(), string(a.Result.Outcome)
	e, found := table[again+outcome]
	if !a.Escalates || !found {
		e, found = table[outcome]
	}
	if !found {
		return
	}
	e.text += " {shortage} {judged}"
	pod, words := a.Entry.Pod, r.attemptWords(d, a)
	r.write(podReference(pod.Namespace, pod.Name, pod.UID), nil, &e, append(words, "{pod}", thisPod(pod)))
	if pod.OwnerUID == "" {
		return
	}
	var annotations map[string]string
	if a.Result.Outcome.Accepted() {
		annotations = map[string]string{victimAnnotation: pod.UID}
	}
	r.write(ownerReference(pod), annotations, &e, append(words, "{pod}", itsPod(pod)))
}

// concernsNode reports whether a hold is reported on the node. Unknown usage of a disk is when the other
// pods have been measured, so that there is a breakdown. Otherwise one pod that cannot start would
// silence the node; and a measurement of all pods is over in a moment.
func concernsNode(d *decide.Decision) bool {
	_, node := attention(d.Hold)
	return node || d.Hold == decide.HoldUsageUnknown && d.Breakdown != nil && d.Pressure.Threshold.Signal.OnDisk()
}

func podReference(namespace, name, uid string) *corev1.ObjectReference {
	return &corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: namespace, Name: name, UID: types.UID(uid)}
}

// ownerReference names the pod's controller, by what the pod says of it. The controllers
// of pods are in the pods' own namespace (metav1.OwnerReference).
func ownerReference(pod *rank.Pod) *corev1.ObjectReference {
	kind, name, _ := strings.Cut(pod.Owner, "/")
	return &corev1.ObjectReference{
		APIVersion: pod.OwnerAPIVersion, Kind: kind, Namespace: pod.Namespace, Name: name, UID: types.UID(pod.OwnerUID),
	}
}

// nodeReference names the node as the kubelet's Events do, with its name for a
// UID, which is where kubectl describe node looks.
func nodeReference(name string) *corev1.ObjectReference {
	return &corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: name, UID: types.UID(name)}
}
