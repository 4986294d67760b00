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

// EventWriter takes Kubernetes Events, as client-go's record.EventRecorder and
// [Events] do. The objects are ObjectReferences. It must not wait for the API server.
type EventWriter interface {
	Event(object runtime.Object, eventtype, reason, message string)
	// AnnotatedEventf is Event with annotations.
	AnnotatedEventf(object runtime.Object, annotations map[string]string, eventtype, reason, format string, args ...any)
}

// The reasons of Events. All but the last six are on the pod and on its controller.
const (
	// ReasonRequested: the API server accepted the pod's eviction.
	ReasonRequested = "EvictionRequested"
	// ReasonWouldBeEvicted: it would have, in a dry run; nothing happened.
	ReasonWouldBeEvicted = "WouldBeEvicted"
	// ReasonDeleted: the API server accepted the delete of a pod, which bypassed its budget.
	ReasonDeleted = "BypassedPDB"
	// ReasonWouldBeDeleted: it would have, in a dry run; nothing happened.
	ReasonWouldBeDeleted = "WouldBypassPDB"
	// ReasonEscalated: a victim that should have ended by now has a shorter grace period.
	ReasonEscalated = "EvictionEscalated"
	// ReasonWouldBeEscalated: it would have, in a dry run; nothing happened.
	ReasonWouldBeEscalated = "WouldBeEscalated"
	// ReasonBlocked: a PodDisruptionBudget kept the pod.
	ReasonBlocked = "EvictionBlocked"
	// ReasonDenied: RBAC, admission or a webhook kept the pod, or moves it away by its own means.
	ReasonDenied = "EvictionDenied"
	// ReasonMisconfigured: several budgets select the pod.
	ReasonMisconfigured = "EvictionMisconfigured"
	// ReasonUnconfirmed: no response came; the pod may be in flight.
	ReasonUnconfirmed = "EvictionUnconfirmed"
	// ReasonStuck: the pod was evicted and has not ended by its deadline. It is on the pod alone.
	ReasonStuck = "EvictionStuck"
	// ReasonHeld is on the node: no pod can be evicted although a threshold is met.
	ReasonHeld = "EvictionHeld"
	// ReasonRefused is on the node and on evictd's own pod: its configuration file is refused.
	ReasonRefused = "ConfigurationRefused"
	// ReasonStopped is on the node: the ConfigMap exists that stops evictd, or that is not known.
	ReasonStopped = "EvictionsStopped"
	// ReasonResumed is on the node: that is over.
	ReasonResumed = "EvictionsResumed"
	// ReasonKubeletNear is on the node: the kubelet would evict for memory before evictd.
	ReasonKubeletNear = "KubeletEvictionNear"
)

// Reasons returns the reasons of every Event that evictd writes.
func Reasons() []string {
	return []string{
		ReasonRequested, ReasonWouldBeEvicted, ReasonDeleted, ReasonWouldBeDeleted,
		ReasonEscalated, ReasonWouldBeEscalated, ReasonBlocked, ReasonDenied,
		ReasonMisconfigured, ReasonUnconfirmed, ReasonStuck, ReasonHeld, ReasonRefused,
		ReasonStopped, ReasonResumed, ReasonKubeletNear,
	}
}

// writeEvents writes the Events of a decision: two for each pod that was tried, on the pod and on
// its controller, or one on the node when no pod can be evicted.
func (r *Recorder) writeEvents(d *decide.Decision) {
	for i := range d.Attempts {
		a := &d.Attempts[i]
		if reason := reasonOf(a); reason != "" {
			pod := a.Entry.Pod
			r.events.Event(podReference(pod.Namespace, pod.Name, pod.UID), corev1.EventTypeWarning, reason, r.attemptMessage(d, a, thisPod(a)))
			r.tellOwner(d, a, reason)
		}
	}
	if r.noteHold(d) {
		r.warnOnNode(ReasonHeld, r.heldMessage(d))
	}
}

// warnOnNode writes an Event on the node.
func (r *Recorder) warnOnNode(reason, message string) {
	r.events.Event(nodeReference(r.node), corev1.EventTypeWarning, reason, message)
}

// tellOnNode writes an Event on the node about nothing that needs attention.
func (r *Recorder) tellOnNode(reason, message string) {
	r.events.Event(nodeReference(r.node), corev1.EventTypeNormal, reason, message)
}

// concernsNode reports whether a hold is reported on the node: no pod can be evicted. Unknown usage
// of a disk is reported when the other pods have been measured, so that there is a breakdown.
// Otherwise one pod that cannot start would silence the node; and a measurement of all pods is over
// in a moment.
func concernsNode(d *decide.Decision) bool {
	switch d.Hold {
	case decide.HoldNoCandidates, decide.HoldWithinRequests, decide.HoldIncompleteReading, decide.HoldInsufficientReclaim, decide.HoldBudgetUnknown,
		decide.HoldImagesFirst:
		return true
	default:
		return d.Hold == decide.HoldUsageUnknown && d.Breakdown != nil && d.Pressure.Threshold.Signal.OnDisk()
	}
}

// tellOwner writes an attempt's Event on the pod's controller, where the owner of several pods sees
// which of them was evicted. A pod without a controller has none.
func (r *Recorder) tellOwner(d *decide.Decision, a *decide.Attempt, reason string) {
	pod := a.Entry.Pod
	if pod.OwnerUID == "" {
		return
	}
	var annotations map[string]string
	if a.Result.Outcome.Accepted() {
		annotations = map[string]string{victimAnnotation: pod.UID}
	}
	r.events.AnnotatedEventf(ownerReference(pod), annotations, corev1.EventTypeWarning, reason, "%s", r.attemptMessage(d, a, itsPod(pod)))
}

// noteHold reports whether the decision's hold is to be said on the node, and was not by the
// one before it for the same threshold.
func (r *Recorder) noteHold(d *decide.Decision) bool {
	now := decide.HoldNone
	if concernsNode(d) {
		now = d.Hold
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	last := &r.held[d.Pressure.Threshold.Signal][kindOf(d.Pressure.Threshold.Hard)]
	fresh := now != decide.HoldNone && *last != now
	*last = now
	return fresh
}

// reasonOf returns the reason of the pod's Event, or "" for outcomes that do not concern the pod.
func reasonOf(a *decide.Attempt) string {
	outcome := a.Result.Outcome
	switch {
	case a.Escalates && outcome == evict.Evicted:
		return ReasonEscalated
	case a.Escalates && outcome == evict.WouldEvict:
		return ReasonWouldBeEscalated
	default:
		return reasonOfOutcome(outcome)
	}
}

func reasonOfOutcome(outcome evict.Outcome) string {
	switch outcome {
	case evict.Evicted:
		return ReasonRequested
	case evict.WouldEvict:
		return ReasonWouldBeEvicted
	case evict.Deleted:
		return ReasonDeleted
	case evict.WouldDelete:
		return ReasonWouldBeDeleted
	case evict.BlockedByBudget, evict.BudgetPending:
		return ReasonBlocked
	case evict.Denied, evict.Evacuating:
		return ReasonDenied
	case evict.Misconfigured:
		return ReasonMisconfigured
	case evict.Unconfirmed:
		return ReasonUnconfirmed
	default:
		return ""
	}
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
