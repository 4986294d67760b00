package memories

import (
	"context"
	"time"

	"github.com/evictd/evictd/internal/cooldown"
	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/incident"
	"github.com/evictd/evictd/internal/inflight"
	"github.com/evictd/evictd/internal/state"
	"github.com/evictd/evictd/pkg/pressure"
)

// Memories are what the agent remembers. Its methods are what concerns more than one of them. It
// belongs to one goroutine, but for [Memories.BeforeSend].
type Memories struct {
	Victims   *inflight.Tracker
	Cooldown  *cooldown.Tracker
	Incidents *incident.Tracker

	pods   inflight.Pods
	keeper *state.Keeper
	dryRun bool
}

// Options are what memories need. All must be set, except OOMKills and Kept.
type Options struct {
	// Victims are the pods in flight, and Pods those of the node.
	Victims *inflight.Tracker
	Pods    inflight.Pods
	// Fault is called with each source that could not be read.
	Fault func(source string, err error)
	// Limits are those of the first policy, and Random returns numbers in [0,1), for jitter.
	Limits cooldown.Limits
	Random func() float64
	// OOMKills returns how many processes the kernel has killed for want of memory since boot;
	// nil where that cannot be read.
	OOMKills func() (int64, error)
	// Kept keeps what must survive a restart; nil keeps nothing.
	Kept state.Memory
}

// New returns memories that know nothing yet.
func New(o Options) *Memories {
	m := &Memories{
		pods: o.Pods, Victims: o.Victims, Cooldown: cooldown.New(o.Limits, o.Random),
		Incidents: incident.New(incident.Sources{OOMKills: o.OOMKills, Pods: o.Pods.List, Fault: o.Fault}),
	}
	m.keeper = state.NewKeeper(o.Kept, m.export)
	return m
}

// Adopt puts a configuration in force: how memory.available is measured, its limits, and
// the dry run. What a dry run simulated is forgotten with its end.
func (m *Memories) Adopt(memory pressure.MemoryDefinition, limits cooldown.Limits, dryRun bool) {
	if !dryRun {
		m.Cooldown.ForgetDryRuns()
		m.Incidents.ForgetDryRuns()
	}
	m.keeper.Changed(m.dryRun && !dryRun)
	m.dryRun = dryRun
	m.Victims.Adopt(memory, dryRun)
	m.Cooldown.SetLimits(limits)
}

// ForgetGone ends what is known of pods that have gone, and returns the victims among them.
func (m *Memories) ForgetGone(now time.Time) []decide.Victim {
	ended := m.Victims.EndGone(now)
	if m.pods.Synced() {
		m.Cooldown.Forget(m.Victims.Present)
	}
	m.keeper.Changed(len(ended) > 0)
	return ended
}

// BeforeReading measures the would-be victims of a dry run, before the node is read.
func (m *Memories) BeforeReading(ctx context.Context, now time.Time) {
	m.Victims.Simulate(ctx, now)
}

// FollowIncidents opens and closes incidents by a sample, and returns those that began and ended.
func (m *Memories) FollowIncidents(
	sample *pressure.Sample, thresholds []pressure.Threshold, transition time.Duration,
) (began, ended []incident.Incident) {
	began, ended = m.Incidents.Observe(sample, thresholds, transition)
	m.keeper.Changed(len(began) > 0 || len(ended) > 0)
	return began, ended
}

// IncidentOf returns the ID of the open incident that a pressure belongs to; "" when there is
// none.
func (m *Memories) IncidentOf(p *pressure.Pressure) string {
	return m.Incidents.ID(p.Threshold.Signal, p.Observed)
}

// MetSince returns when a pressure's threshold was first met in its incident: a line that is met again and
// again is one shortage. For a soft threshold that is when its last grace period was over.
func (m *Memories) MetSince(p *pressure.Pressure) time.Time {
	since := m.Incidents.HardSince(p.Threshold.Signal, p.Observed)
	if !p.Threshold.Hard || since.IsZero() || since.After(p.Since) {
		return p.Since
	}
	return since
}

// Observe takes a sample.
func (m *Memories) Observe(sample *pressure.Sample) {
	m.Victims.Observe(sample, m.Incidents.Any())
}

// BeforePlan notes that a plan is about to be carried out.
func (m *Memories) BeforePlan() { m.keeper.Learn() }

// Save keeps the memories where something has changed since they last were.
func (m *Memories) Save() { m.keeper.SaveChanged() }

// SaveNow keeps the memories and waits until that is done: the process ends.
func (m *Memories) SaveNow() { m.keeper.SaveNow() }

// DrawJitter decides how long the first soft eviction of an incident waits.
func (m *Memories) DrawJitter(p *pressure.Pressure) {
	m.Cooldown.Draw(decide.CooldownOf(p, m.IncidentOf(p)), p.SampleTime)
}
