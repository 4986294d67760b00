package agent

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/evictd/evictd/internal/incident"
	"github.com/evictd/evictd/internal/nodepods"
	"github.com/evictd/evictd/pkg/pressure"
)

// followIncidents opens and closes incidents by a sample, and tells of both. What the kernel
// and the kubelet have done in between is the difference of two looks.
func (a *Agent) followIncidents(sample *pressure.Sample, verdict *pressure.Verdict) {
	if verdict.Stale {
		return
	}
	began, ended := a.incidents.Observe(sample, a.policy.Thresholds, a.policy.Transition)
	a.changed = a.changed || len(began) > 0 || len(ended) > 0
	for i := range began {
		began[i].Before = incident.Others{OOMKills: a.oomKills(), Kubelets: uidsOf(a.evictedByKubelet())}
		a.incidents.NoteBefore(began[i].ID, began[i].Before)
		a.options.Recorder.IncidentBegan(&began[i])
	}
	for i := range ended {
		ended[i].During = a.during(&ended[i].Before)
		a.options.Recorder.IncidentEnded(&ended[i])
	}
}

// incidentOf returns the ID of the open incident that a pressure belongs to; "" when there is
// none.
func (a *Agent) incidentOf(p *pressure.Pressure) string {
	return a.incidents.ID(p.Threshold.Signal, p.Observed)
}

// during returns what others did since.
func (a *Agent) during(before *incident.Others) incident.Others {
	others := incident.Others{OOMKills: -1}
	if now := a.oomKills(); now >= 0 && before.OOMKills >= 0 {
		others.OOMKills = max(0, now-before.OOMKills)
	}
	for _, pod := range a.evictedByKubelet() {
		if !slices.Contains(before.Kubelets, string(pod.UID)) {
			others.Kubelets = append(others.Kubelets, pod.Namespace+"/"+pod.Name)
		}
	}
	slices.Sort(others.Kubelets)
	return others
}

// oomKills returns how many processes the kernel has killed since boot; negative where that
// is not known.
func (a *Agent) oomKills() int64 {
	if a.options.OOMKills == nil {
		return -1
	}
	kills, err := a.options.OOMKills()
	if err != nil {
		a.options.Recorder.ReadError(SourceProc, err)
		return -1
	}
	return kills
}

// evictedByKubelet returns the listed pods that the kubelet has evicted. They stay listed until
// they are collected.
func (a *Agent) evictedByKubelet() []*corev1.Pod {
	return slices.DeleteFunc(a.options.Pods.List(), func(pod *corev1.Pod) bool { return !kubeletEvicted(pod) })
}

// reasonEvicted is the kubelet's (pkg/kubelet/eviction/helpers.go, Reason).
const reasonEvicted = "Evicted"

// kubeletEvicted reports whether the kubelet has evicted the pod and it has ended. The kubelet
// writes phase Failed and reason Evicted; of a pod whose containers ended with 0 it writes
// Succeeded in the end, and only the condition DisruptionTarget stays.
func kubeletEvicted(pod *corev1.Pod) bool {
	if !nodepods.Finished(pod) {
		return false
	}
	return pod.Status.Reason == reasonEvicted || slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue && c.Reason == corev1.PodReasonTerminationByKubelet
	})
}

func uidsOf(pods []*corev1.Pod) []string {
	uids := make([]string, 0, len(pods))
	for _, pod := range pods {
		uids = append(uids, string(pod.UID))
	}
	return uids
}
