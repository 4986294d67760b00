package agent

import (
	"slices"

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
		slices.SortFunc(pods, func(a, b *nodepods.Pod) int { return a.KubeletEvictedAt.Compare(b.KubeletEvictedAt) })
		others.Unnamed, pods = pods[more-1].KubeletEvictedAt, pods[more:]
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
		unnamed := !before.Unnamed.IsZero() && !pod.KubeletEvictedAt.After(before.Unnamed)
		if !unnamed && !slices.Contains(before.Kubelets, pod.UID) {
			others.Kubelets = append(others.Kubelets, pod.Key())
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
func (a *Agent) evictedByKubelet() []*nodepods.Pod {
	return slices.DeleteFunc(a.options.Pods.List(), func(pod *nodepods.Pod) bool { return !pod.KubeletEvicted })
}

func uidsOf(pods []*nodepods.Pod) []string {
	uids := make([]string, 0, len(pods))
	for _, pod := range pods {
		uids = append(uids, pod.UID)
	}
	return uids
}
