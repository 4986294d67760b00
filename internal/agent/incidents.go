package agent

import (
	"slices"
	"time"

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
		began[i].Before = a.before()
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

// before returns what others had done until now.
func (a *Agent) before() incident.Others {
	others, pods := incident.Others{OOMKills: a.oomKills()}, a.evictedByKubelet()
	if more := len(pods) - incident.KubeletsKept; more > 0 {
		slices.SortFunc(pods, func(a, b *corev1.Pod) int { return kubeletEvictedAt(a).Compare(kubeletEvictedAt(b)) })
		others.Unnamed, pods = kubeletEvictedAt(pods[more-1]), pods[more:]
	}
	others.Kubelets = uidsOf(pods)
	return others
}

// during returns what others did since.
func (a *Agent) during(before *incident.Others) incident.Others {
	others := incident.Others{OOMKills: -1}
	if now := a.oomKills(); now >= 0 && before.OOMKills >= 0 {
		others.OOMKills = max(0, now-before.OOMKills)
	}
	for _, pod := range a.evictedByKubelet() {
		unnamed := !before.Unnamed.IsZero() && !kubeletEvictedAt(pod).After(before.Unnamed)
		if !unnamed && !slices.Contains(before.Kubelets, string(pod.UID)) {
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
		a.options.Recorder.ReadError(string(pressure.ProcSource), err)
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

// kubeletEvictedAt returns when the kubelet evicted a pod, by its clock, in whole seconds. One that it
// did not let begin has its creation alone.
func kubeletEvictedAt(pod *corev1.Pod) time.Time {
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == corev1.DisruptionTarget {
			return c.LastTransitionTime.Time
		}
	}
	return pod.CreationTimestamp.Time
}

func uidsOf(pods []*corev1.Pod) []string {
	uids := make([]string, 0, len(pods))
	for _, pod := range pods {
		uids = append(uids, string(pod.UID))
	}
	return uids
}
