package incident

import (
	"slices"
	"time"

	"github.com/evictd/evictd/pkg/pressure"
)

// Tracker follows which incidents are open. It is not safe for concurrent use. The zero value
// has none.
type Tracker struct {
	// open has at most one incident for a resource, the oldest first.
	open []*Incident
}

// Observe takes a sample, judged by the thresholds in force, and returns copies of the
// incidents that began and that ended with it. An incident begins when a threshold is met,
// grace period or not. It ends when each signal of its resource has stood at its target, the
// line and the minimum reclaim, for the transition period. A signal that is not known is not
// at its target; one without a threshold, or that the node does not have, keeps nothing open.
func (t *Tracker) Observe(sample *pressure.Sample, thresholds []pressure.Threshold, transition time.Duration) (began, ended []Incident) {
	for n := range thresholds {
		if i := t.observe(sample, &thresholds[n]); i != nil {
			began = append(began, i.clone())
		}
	}
	t.open = slices.DeleteFunc(t.open, func(i *Incident) bool {
		over := i.Short.Before(sample.Time) && sample.Time.Sub(i.Short) >= transition
		if over {
			ended = append(ended, i.clone())
		}
		return over
	})
	return began, ended
}

// observe holds one threshold against the sample and returns the incident that begins with it;
// nil when none does.
func (t *Tracker) observe(sample *pressure.Sample, threshold *pressure.Threshold) *Incident {
	signal := threshold.Signal
	seen := sample.Of(signal)
	switch seen.State {
	case pressure.Absent:
		return nil
	case pressure.Unknown:
		if i := t.about(signal); i != nil {
			i.Short = sample.Time
		}
		return nil
	case pressure.Known:
	}
	line := threshold.Quantity.Of(seen.Capacity)
	i := t.of(ResourceOf(signal, seen))
	if i == nil {
		if seen.Available >= line {
			return nil
		}
		i = newIncident(signal, seen, sample.Time)
		t.open = append(t.open, i)
		return i
	}
	if seen.Available < line+threshold.MinReclaim.Of(seen.Capacity) {
		i.Short = sample.Time
	}
	if signal == i.Signal {
		i.Lowest = min(i.Lowest, seen.Available)
	}
	return nil
}

func newIncident(signal pressure.Signal, seen pressure.Observation, at time.Time) *Incident {
	return &Incident{
		ID:       signal.String() + "-" + at.UTC().Format("20060102T150405.000Z"),
		Resource: ResourceOf(signal, seen), Signal: signal,
		Began: at, Short: at, Lowest: seen.Available,
		Before: Others{OOMKills: -1}, During: Others{OOMKills: -1},
	}
}

// of returns the open incident of a resource; nil when there is none.
func (t *Tracker) of(r Resource) *Incident {
	if at := slices.IndexFunc(t.open, func(i *Incident) bool { return i.Resource == r }); at >= 0 {
		return t.open[at]
	}
	return nil
}

// about returns the open incident that a signal without a reading belongs to, as far as that
// can be told: its filesystem's device is not known then, so it is the one that it began.
func (t *Tracker) about(signal pressure.Signal) *Incident {
	if !signal.OnDisk() {
		return t.of(Resource{Kind: kindOf(signal)})
	}
	if at := slices.IndexFunc(t.open, func(i *Incident) bool { return i.Signal == signal }); at >= 0 {
		return t.open[at]
	}
	return nil
}

// ID returns the ID of the open incident that the reading of a signal belongs to; "" when
// there is none.
func (t *Tracker) ID(signal pressure.Signal, seen pressure.Observation) string {
	if i := t.of(ResourceOf(signal, seen)); i != nil {
		return i.ID
	}
	return ""
}

// Add notes a victim of an open incident, by the incident's ID. An incident that is not open
// any more is ignored.
func (t *Tracker) Add(id string, v Victim) {
	for _, i := range t.open {
		if i.ID == id {
			i.add(v)
		}
	}
}

// NoteBefore notes what others had done when the incident with that ID began.
func (t *Tracker) NoteBefore(id string, before Others) {
	for _, i := range t.open {
		if i.ID == id {
			i.Before = before
		}
	}
}

// Any reports whether an incident is open.
func (t *Tracker) Any() bool { return len(t.open) > 0 }

// ForgetDryRuns drops the victims of a dry run, once evictd evicts for real.
func (t *Tracker) ForgetDryRuns() {
	for _, i := range t.open {
		i.Victims = slices.DeleteFunc(i.Victims, func(v Victim) bool { return v.DryRun })
	}
}

// Export returns copies of the open incidents, the oldest first.
func (t *Tracker) Export() []Incident {
	open := make([]Incident, 0, len(t.open))
	for _, i := range t.open {
		open = append(open, i.clone())
	}
	return open
}

// Restore opens the incidents that were open before a restart. Of several of one resource the
// first counts. What is open already stays.
func (t *Tracker) Restore(open []Incident) {
	for n := range open {
		if t.of(open[n].Resource) == nil {
			restored := open[n].clone()
			t.open = append(t.open, &restored)
		}
	}
}
