package agent

import (
	"slices"

	"github.com/evictd/evictd/internal/incident"
	"github.com/evictd/evictd/internal/nodepods"
	"github.com/evictd/evictd/pkg/pressure"
)

// followIncidents opens and closes incidents by a sample, and tells of both.
func (a *Agent) followIncidents(sample *pressure.Sample, verdict *pressure.Verdict) {
	if verdict.Stale {
		return
	}
	began, ended := a.incidents.Observe(sample, a.policy.Thresholds, a.policy.Transition)
	a.memory.Changed(len(began) > 0 || len(ended) > 0)
	for i := range began {
		a.options.Recorder.IncidentBegan(&began[i])
	}
	for i := range ended {
		a.options.Recorder.IncidentEnded(&ended[i])
	}
}

// incidentOf returns the ID of the open incident that a pressure belongs to; "" when there is
// none.
func (a *Agent) incidentOf(p *pressure.Pressure) string {
	return a.incidents.ID(p.Threshold.Signal, p.Observed)
}

// kubeletsVictims returns them as an incident names them.
func (a *Agent) kubeletsVictims() []incident.Evicted {
	var evicted []incident.Evicted
	for _, pod := range a.evictedByKubelet() {
		evicted = append(evicted, incident.Evicted{Pod: pod.Key(), UID: pod.UID, At: pod.KubeletEvictedAt})
	}
	return evicted
}

// evictedByKubelet returns the listed pods that the kubelet has evicted. They stay listed until
// they are collected.
func (a *Agent) evictedByKubelet() []*nodepods.Pod {
	return slices.DeleteFunc(a.options.Pods.List(), func(pod *nodepods.Pod) bool { return !pod.KubeletEvicted })
}

// evictedInIncidents is [Agent.evictedByKubelet] while an incident is open; nil while none is.
func (a *Agent) evictedInIncidents() []*nodepods.Pod {
	if !a.incidents.Any() {
		return nil
	}
	return append([]*nodepods.Pod{}, a.evictedByKubelet()...)
}
