// Package incident gives a shortage its identity. A threshold's own state is reset by each reading
// at the threshold, by the hard threshold that follows the soft one, by an edit of the
// configuration and by a restart; an incident continues across all of them. It groups and names
// what happens in one shortage of one resource. It neither evicts nor forbids.
package incident

import (
	"cmp"
	"slices"
	"time"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/nodepods"
	"github.com/evictd/evictd/internal/state"
	"github.com/evictd/evictd/pkg/pressure"
)

// victimsKept is how many victims an incident names; the others are counted. At the default
// of six evictions a minute it is ten minutes' worth.
const victimsKept = 64

// Incident is one shortage of one resource, from the first threshold met until the targets of
// the resource's signals have held for the transition period.
type Incident struct {
	// ID names the incident: the signal that was short first and when, in UTC to the
	// millisecond. It stays the same across a restart of the container.
	ID string `json:"id"`
	// Resource is what the node is short of.
	Resource decide.Resource `json:"resource"`
	// Signal is the one whose threshold was met first.
	Signal pressure.Signal `json:"signal"`
	// Began is when that was.
	Began time.Time `json:"began"`
	// HardSince is when one of its hard thresholds was first met; zero while none was.
	HardSince time.Time `json:"hardSince,omitzero"`
	// Short is when one of the resource's signals was last below its target, or not known.
	Short time.Time `json:"short"`
	// Lowest is the least that was available of Signal, in its unit.
	Lowest int64 `json:"lowest"`
	// Victims are the pods that were evicted, or would have been, the oldest first and 64 at
	// most; More counts those beyond that.
	Victims []Victim `json:"victims,omitempty"`
	More    int      `json:"more,omitempty"`
	// Warned says that the first candidate was told, while a grace period ran; WarnedDryRun, that this was in a dry run.
	Warned       bool `json:"warned,omitempty"`
	WarnedDryRun bool `json:"warnedDryRun,omitempty"`
	// KillsBefore is how many processes the kernel had killed for want of memory since boot when the incident
	// began; negative where that is not known.
	KillsBefore int64 `json:"killsBefore"`
	// OOMKills is how many it killed in the incident; negative where that is not known. Kubelets are the pods
	// that the kubelet evicted in it, as namespace/name. Both mean nothing until it has ended.
	OOMKills int64    `json:"-"`
	Kubelets []string `json:"-"`
}

// Victim is a pod that was evicted in an incident, or would have been.
type Victim struct {
	// Pod is namespace/name, UID the API server's.
	Pod string `json:"pod"`
	UID string `json:"uid"`
	// DryRun says that nothing happened to it.
	DryRun bool `json:"dryRun,omitempty"`
}

// Tracker follows which incidents are open, and what others did in each. It is not safe for
// concurrent use.
type Tracker struct {
	oomKills func() (int64, error)
	pods     func() []*nodepods.Pod
	fault    func(source string, err error)
	// open has at most one incident for a resource, the oldest first.
	open []*Incident
	// devices are those that the signals were last about: a signal belongs to an incident while it cannot be read,
	// too.
	devices [pressure.SignalCount]uint64
}

// New returns a tracker without incidents. OOMKills returns how many processes the kernel has killed for want
// of memory since boot, Pods the listed pods of the node, among them those that the kubelet has evicted, and Fault
// receives the error when OOMKills fails. They are called when an incident begins and ends.
func New(oomKills func() (int64, error), pods func() []*nodepods.Pod, fault func(source string, err error)) *Tracker {
	return &Tracker{oomKills: oomKills, pods: pods, fault: fault}
}

// Observe takes a sample, judged by the thresholds in force, and returns copies of the
// incidents that began and that ended with it. An incident begins when a threshold is met,
// grace period or not. It ends when each signal of its resource has stood at its target, the
// line and the minimum reclaim, for the transition period. A signal that is not known is not
// at its target; one without a threshold, or that the node does not have, keeps nothing open.
func (t *Tracker) Observe(sample *pressure.Sample, thresholds []pressure.Threshold, transition time.Duration) (began, ended []Incident) {
	for n := range thresholds {
		if i := t.observe(sample, &thresholds[n]); i != nil {
			began = append(began, *i)
		}
	}
	t.open = slices.DeleteFunc(t.open, func(i *Incident) bool {
		over := i.Short.Before(sample.Time) && sample.Time.Sub(i.Short) >= transition
		if over {
			t.end(i)
			ended = append(ended, *i)
		}
		return over
	})
	return began, ended
}

// observe holds one threshold against the sample and returns the incident that begins with it;
// nil when none does.
func (t *Tracker) observe(sample *pressure.Sample, threshold *pressure.Threshold) (began *Incident) {
	signal, now := threshold.Signal, sample.Time
	seen := sample.Of(signal)
	if seen.State == pressure.Known {
		t.devices[signal] = seen.Device
	}
	i, line := t.of(signal, seen), threshold.Quantity.Of(seen.Capacity)
	switch {
	case seen.State == pressure.Absent, i == nil && (seen.State == pressure.Unknown || seen.Available >= line):
		return nil
	case seen.State == pressure.Unknown:
		i.Short = now
		return nil
	case i == nil:
		i = &Incident{
			ID:       signal.String() + "-" + now.UTC().Format("20060102T150405.000Z"),
			Resource: decide.Resource{Kind: signal.Kind(), Device: seen.Device}, Signal: signal,
			Began: now, Short: now, Lowest: seen.Available, KillsBefore: t.kills(),
		}
		t.open, began = append(t.open, i), i
	}
	if threshold.Hard && seen.Available < line && i.HardSince.IsZero() {
		i.HardSince = now
	}
	if seen.Available < line+threshold.MinReclaim.Of(seen.Capacity) {
		i.Short = now
	}
	if signal == i.Signal {
		i.Lowest = min(i.Lowest, seen.Available)
	}
	return began
}

// end notes what others have done in an incident. The kubelet's times are in whole seconds.
func (t *Tracker) end(i *Incident) {
	i.OOMKills = -1
	if now := t.kills(); now >= 0 && i.KillsBefore >= 0 {
		i.OOMKills = max(0, now-i.KillsBefore)
	}
	for _, pod := range t.pods() {
		if !pod.KubeletEvictedAt.Before(i.Began.Truncate(time.Second)) { // it is the zero time where the kubelet did not
			i.Kubelets = append(i.Kubelets, pod.Key())
		}
	}
	slices.Sort(i.Kubelets)
}

// kills returns how many processes the kernel has killed since boot; negative where that is not known.
func (t *Tracker) kills() int64 {
	kills, err := t.oomKills()
	if err != nil {
		t.fault(string(pressure.ProcSource), err)
		return -1
	}
	return kills
}

// of returns the open incident that the reading of a signal belongs to; nil when there is none.
func (t *Tracker) of(signal pressure.Signal, seen pressure.Observation) *Incident {
	r := decide.Resource{Kind: signal.Kind(), Device: cmp.Or(seen.Device, t.devices[signal])}
	if at := slices.IndexFunc(t.open, func(i *Incident) bool { return i.Resource == r }); at >= 0 {
		return t.open[at]
	}
	return nil
}

// Warn calls tell for a pressure's open incident, until it has returned true once in that incident. It returns
// whether it did now.
func (t *Tracker) Warn(p *pressure.Pressure, dryRun bool, tell func() bool) (told bool) {
	i := t.of(p.Threshold.Signal, p.Observed)
	if i == nil || i.Warned || !tell() {
		return false
	}
	i.Warned, i.WarnedDryRun = true, dryRun
	return true
}

// Into adds to a situation the open incident that its pressure belongs to, where there is one, and when the threshold
// was first met in it: a line that is met again and again is one shortage. For a soft threshold that is when it was
// last met.
func (t *Tracker) Into(s *decide.Situation) {
	p := &s.Pressure
	s.Met = p.Since
	i := t.of(p.Threshold.Signal, p.Observed)
	if i == nil {
		return
	}
	s.Incident, s.Began = i.ID, i.Began
	if p.Threshold.Hard && !i.HardSince.IsZero() && i.HardSince.Before(p.Since) {
		s.Met = i.HardSince
	}
}

// Add notes a victim of an open incident, by the incident's ID. An incident that is not open
// any more is ignored. A victim that is named already stays as it is, except that a real eviction
// replaces a simulated one.
func (t *Tracker) Add(id string, v Victim) {
	for _, i := range t.open {
		at := slices.IndexFunc(i.Victims, func(known Victim) bool { return known.UID == v.UID })
		switch {
		case i.ID != id:
		case at >= 0:
			i.Victims[at].DryRun = i.Victims[at].DryRun && v.DryRun
		case len(i.Victims) >= victimsKept:
			i.More++
		default:
			i.Victims = append(i.Victims, v)
		}
	}
}

// Any reports whether an incident is open.
func (t *Tracker) Any() bool { return len(t.open) > 0 }

// Adopt drops the victims of a dry run, and its warning, once evictd evicts for real.
func (t *Tracker) Adopt(dryRun bool) {
	for _, i := range t.open {
		i.Warned = i.Warned && (dryRun || !i.WarnedDryRun)
		i.Victims = slices.DeleteFunc(i.Victims, func(v Victim) bool { return v.DryRun && !dryRun })
	}
}

// Open returns copies of the open incidents, the oldest first.
func (t *Tracker) Open() []Incident {
	open := make([]Incident, 0, len(t.open))
	for _, i := range t.open {
		copied := *i
		copied.Victims = slices.Clone(i.Victims)
		open = append(open, copied)
	}
	return open
}

// restoredFor is how long after the last shortage that was written an incident is restored. A
// shortage in which nothing changes is not written again while it lasts.
const restoredFor = 24 * time.Hour

// Restore opens the incidents that were open before a restart and have not expired; the first sample closes what is
// over. A time in the future counts as now.
func (t *Tracker) Restore(kept []Incident, now time.Time) {
	for n := range kept {
		i := kept[n]
		if now.Sub(i.Short) >= restoredFor {
			continue
		}
		i.Began, i.Short = state.Restored(i.Began, now, 0), state.Restored(i.Short, now, 0)
		i.HardSince = state.Restored(i.HardSince, now, 0)
		t.devices[i.Signal] = i.Resource.Device
		t.open = append(t.open, &i)
	}
}
