package agent

import "github.com/evictd/evictd/pkg/pressure"

// followIncidents opens and closes incidents by a sample, and reports both.
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
