package incident

import (
	"slices"
	"time"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/state"
	"github.com/evictd/evictd/pkg/pressure"
)

// Tracker follows which incidents are open, and what others did in each. It is not safe for
// concurrent use. The zero value has none, and knows nothing of others.
type Tracker struct {
	others Sources
	// open has at most one incident for a resource, the oldest first.
	open []*Incident
}

// New returns a tracker without incidents, which reads the sources when an incident begins and
// ends.
func New(others Sources) *Tracker { return &Tracker{others: others} }

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
			i.During = t.others.during(&i.Before)
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
		if i := t.of(signal, pressure.Observation{}); i != nil {
			i.Short = sample.Time
		}
		return nil
	case pressure.Known:
	}
	line := threshold.Quantity.Of(seen.Capacity)
	i := t.of(signal, seen)
	if i == nil {
		if seen.Available >= line {
			return nil
		}
		i = newIncident(signal, seen, sample.Time)
		i.Before = t.others.before()
		i.met(threshold, sample.Time)
		t.open = append(t.open, i)
		return i
	}
	t.join(i, signal, seen)
	if seen.Available < line {
		i.met(threshold, sample.Time)
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
		Resource: decide.ResourceOf(signal, seen), Signal: signal,
		Began: at, Short: at, Lowest: seen.Available,
		During: Others{OOMKills: -1},
	}
}

// of returns the open incident that the reading of a signal belongs to; nil when there is none.
// While its device is not known that is the one that the signal began or was last part of, and
// another one has the device once it is.
func (t *Tracker) of(signal pressure.Signal, seen pressure.Observation) *Incident {
	r := decide.ResourceOf(signal, seen)
	if i := t.newest(func(i *Incident) bool { return r.Known() && i.Resource == r }); i != nil {
		return i
	}
	return t.newest(func(i *Incident) bool { return i.concerns(signal) && (!r.Known() || !i.Resource.Known()) })
}

func (t *Tracker) newest(is func(i *Incident) bool) *Incident {
	for _, i := range slices.Backward(t.open) {
		if is(i) {
			return i
		}
	}
	return nil
}

// join records that a signal is about an incident's resource. An incident that the signal began
// itself while its device was not known is the same shortage, and continues in this incident.
func (t *Tracker) join(i *Incident, signal pressure.Signal, seen pressure.Observation) {
	r := decide.ResourceOf(signal, seen)
	if !signal.OnDisk() || !r.Known() {
		return
	}
	i.Resource = r
	if !i.concerns(signal) {
		i.Also = append(i.Also, signal)
	}
	t.open = slices.DeleteFunc(t.open, func(other *Incident) bool {
		same := other != i && other.Signal == signal && !other.Resource.Known()
		if same {
			i.absorb(other)
		}
		return same
	})
}

// ID returns the ID of the open incident that the reading of a signal belongs to; "" when
// there is none.
func (t *Tracker) ID(signal pressure.Signal, seen pressure.Observation) string {
	if i := t.of(signal, seen); i != nil {
		return i.ID
	}
	return ""
}

// HardSince returns when a hard threshold was first met in the open incident that the reading of a signal
// belongs to; the zero time when there is none.
func (t *Tracker) HardSince(signal pressure.Signal, seen pressure.Observation) time.Time {
	if i := t.of(signal, seen); i != nil {
		return i.HardSince
	}
	return time.Time{}
}

// met notes that a threshold is met.
func (i *Incident) met(threshold *pressure.Threshold, at time.Time) {
	if threshold.Hard && i.HardSince.IsZero() {
		i.HardSince = at
	}
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

// Any reports whether an incident is open.
func (t *Tracker) Any() bool { return len(t.open) > 0 }

// ForgetDryRuns drops the victims of a dry run, once evictd evicts for real.
func (t *Tracker) ForgetDryRuns() {
	for _, i := range t.open {
		i.Victims = slices.DeleteFunc(i.Victims, func(v Victim) bool { return v.DryRun })
	}
}

// Open returns copies of the open incidents, the oldest first.
func (t *Tracker) Open() []Incident {
	open := make([]Incident, 0, len(t.open))
	for _, i := range t.open {
		open = append(open, i.clone())
	}
	return open
}

// restoredFor is how long after the last shortage that was written an incident is restored. A
// shortage in which nothing changes is not written again while it lasts.
const restoredFor = 24 * time.Hour

// Restore opens the incidents that were open before a restart and have not expired; the first
// sample closes what is over. Of several of one resource, or of one signal whose device is not
// known, the first counts. What is open already stays. A time in the future counts as now.
func (t *Tracker) Restore(kept []Incident, now time.Time) {
	for n := range kept {
		i := kept[n].clone()
		expired := now.Sub(i.Short) >= restoredFor || int(i.Signal) >= pressure.SignalCount
		if expired || t.of(i.Signal, pressure.Observation{Device: i.Resource.Device}) != nil {
			continue
		}
		i.Began, i.Short = state.Restored(i.Began, now, 0), state.Restored(i.Short, now, 0)
		i.HardSince = state.Restored(i.HardSince, now, 0)
		t.open = append(t.open, &i)
	}
}
