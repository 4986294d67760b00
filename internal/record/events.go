package record

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/wording"
	"github.com/evictd/evictd/pkg/evict"
)

// messageLimit is the API's limit for an Event's text, in bytes.
const messageLimit = 1024

// event is an Event: its reason, its type, and its text, in which each {word} is replaced.
type event struct{ reason, kind, text string }

// again is before the outcome of a request for a pod that was a victim already.
const again = "again "

// The reasons of Events that are about no request. They are on the node, but for the first three, which are on
// the pod.
const (
	reasonLikely    = "EvictionLikely"
	reasonStuck     = "EvictionStuck"
	reasonOOMKilled = "ContainerOOMKilled"
	reasonHeld      = "EvictionHeld"
	reasonRefused   = "ConfigurationRefused"
	reasonStopped   = "EvictionsStopped" // by the ConfigMap, or whether it exists is not known
	reasonResumed   = "EvictionsResumed"
	reasonEnded     = "IncidentEnded"
)

// eventTable returns every Event by what it is about: the outcome of a request, which is written on
// the pod, and on the node where it evicts; or its own reason.
func eventTable() map[string]event {
	const (
		warning, normal = corev1.EventTypeWarning, corev1.EventTypeNormal
		figures         = " {shortage} {judged}"
		would           = "Dry run, nothing happens to it: evictd would "
		pastBudget      = " {pod} bypassing {budget}, which wants {wants} healthy pods and has {has}: no candidate could be evicted, and disruptionBudgets is bestEffort."
		overdue         = " again for {pod}, which is terminating and should have ended by now."
		notNow          = "{dry}evictd may not evict {pod}"
		twoBudgets      = " until its PodDisruptionBudgets are fixed: more than one PodDisruptionBudget selects it{answer}."
	)
	return map[string]event{
		string(evict.Evicted):            {"EvictionRequested", warning, "evictd evicts {pod}." + figures},
		string(evict.WouldEvict):         {"WouldBeEvicted", warning, would + "evict {pod}.{why}" + figures},
		string(evict.Deleted):            {"BypassedPDB", warning, "evictd deletes" + pastBudget + figures},
		string(evict.WouldDelete):        {"WouldBypassPDB", warning, would + "delete" + pastBudget + "{why}" + figures},
		again + string(evict.Evicted):    {"EvictionEscalated", warning, "evictd asks" + overdue + figures},
		again + string(evict.WouldEvict): {"WouldBeEscalated", warning, would + "ask" + overdue + "{why}" + figures},
		string(evict.BlockedByBudget):    {"EvictionBlocked", warning, notNow + ": {budget} allows no disruption now{answer}." + figures},
		string(evict.BudgetPending):      {"EvictionBlocked", warning, notNow + " yet: {budget} is still being processed{answer}." + figures},
		string(evict.Denied):             {"EvictionDenied", warning, notNow + ": the API server denies it{answer}." + figures},
		string(evict.Evacuating):         {"EvictionDenied", warning, "{dry}evictd asked to evict {pod}, and admission moves it away by its own means{answer}." + figures},
		string(evict.Misconfigured):      {"EvictionMisconfigured", warning, "{dry}evictd cannot evict {pod}" + twoBudgets + figures},
		string(evict.Unconfirmed):        {"EvictionUnconfirmed", warning, "{dry}evictd requested the eviction of {pod} and got no answer{answer}." + figures},

		reasonLikely: {reasonLikely, warning, "{dry}evictd would evict {pod} at {deadline}, when the grace period of the soft threshold ends, if the node is still short then.{why}" + figures +
			" To keep it, have it use less by then; in the long run, have it request the memory and storage that it uses."},
		reasonStuck: {reasonStuck, warning, "evictd evicted this pod for {signal}, it should have ended by {deadline} and has not: evictd does not rely on its end any more. " +
			"Look for containers that still run, volumes that do not unmount, or a container runtime that hangs."},
		reasonOOMKilled: {reasonOOMKilled, warning, "The kernel killed container {container} of this pod for want of memory{limit}. The container reached its limit, or the node ran out of memory."},
		reasonHeld:      {reasonHeld, warning, "{dry}evictd evicts no pod: {hold}{answer}. {shortage}"},
		reasonRefused:   {reasonRefused, warning, "evictd refuses its configuration, and {instead}: {error}"},
		reasonStopped:   {reasonStopped, warning, "{state}; {do}. Until then its evictions are server-side dry runs."},
		reasonResumed:   {reasonResumed, normal, "It is not stopped any more: {state}."},
		reasonEnded: {reasonEnded, normal, "{signal} was short for {time}, at {lowest} at the lowest. Pods that evictd evicted: {evicted}{would}; that the kubelet evicted: {kubelet}; " +
			"OOM kills: {kills}. Incident {incident}."},
	}
}

// tell writes the Event about something; none where the table has none.
func (r *Recorder) tell(on *corev1.ObjectReference, about string, words ...string) {
	if e, is := eventTable()[about]; is {
		r.events.Event(on, e.kind, e.reason, wording.Shorten(strings.NewReplacer(words...).Replace(e.text), messageLimit))
	}
}

// onNode writes the Event about something on the node: as the kubelet's Events, with the node's name for a
// UID, which is where kubectl describe node looks.
func (r *Recorder) onNode(about string, words ...string) {
	name := r.settings.NodeName
	r.tell(&corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: name, UID: types.UID(name)}, about, words...)
}

// writeEvents writes the Events of a decision: one for each pod that was tried, where the outcome concerns
// the pod, and one on the node when a pod was evicted or none can be. [Events] paces those that are repeated.
func (r *Recorder) writeEvents(d *decide.Decision) {
	for i := range d.Attempts {
		a := &d.Attempts[i]
		about := string(a.Result.Outcome)
		if a.Escalates && a.Result.Outcome.Accepted() {
			about = again + about
		}
		r.tell(podReference(a.Entry.Pod.Namespace, a.Entry.Pod.Name, a.Entry.Pod.UID), about, r.attemptWords(d, a, "this pod")...)
	}
	if d.Verb() == decide.Acted {
		victim := d.Victim()
		pod := victim.Entry.Pod // its UID makes each Event another one, also of a StatefulSet's pods
		r.onNode(string(victim.Result.Outcome), r.attemptWords(d, victim, "pod "+pod.Key()+" ("+pod.UID+")")...)
	}
	if _, concernsNode := attention(d.Hold); concernsNode {
		r.onNode(reasonHeld, r.heldWords(d)...)
	}
}

// Likely writes an Event on the pod that would be evicted first, were the grace period over.
func (r *Recorder) Likely(d *decide.Decision, first *decide.Attempt) {
	pod, ends := first.Entry.Pod, d.Pressure.Since.Add(d.Pressure.Threshold.Grace)
	words := append(r.attemptWords(d, first, "this pod"), "{deadline}", ends.UTC().Format(time.RFC3339))
	r.tell(podReference(pod.Namespace, pod.Name, pod.UID), reasonLikely, words...)
}

func podReference(namespace, name, uid string) *corev1.ObjectReference {
	return &corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: namespace, Name: name, UID: types.UID(uid)}
}
