package assess

import (
	"context"
	"time"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/measure"
	"github.com/evictd/evictd/internal/memories"
	"github.com/evictd/evictd/internal/nodepods"
	"github.com/evictd/evictd/pkg/pressure"
)

// Pods knows the node's pods.
type Pods interface {
	// Synced reports whether the list is complete.
	Synced() bool
	// List returns the pods; it sends no request.
	List() []*nodepods.Pod
	// Stale returns why a list that was complete can no longer be relied on; nil while it can.
	Stale() error
}

// Options are what an Assessor asks. All must be set, but for KubeletGap.
type Options struct {
	Self     nodepods.Self
	Pods     Pods
	Measurer *measure.Measurer
	Memories *memories.Memories
	// Sample reads the node now.
	Sample func() pressure.Sample
	// KubeletGap returns how much less memory.available is by the kubelet's definition than
	// by the kernel's, in bytes: active page cache, mostly. It may be a second old. Nil, and
	// 0, mean that this is not known.
	KubeletGap func(now time.Time) int64
}

// Assessor assesses pressures. It belongs to one goroutine.
type Assessor struct {
	options Options
	policy  decide.Policy
	looked  time.Time // when a plan was last compared with the node, see Outdated
}

// New returns an assessor without a policy.
func New(options Options) *Assessor { return &Assessor{options: options} }

// Adopt puts a policy in force.
func (a *Assessor) Adopt(policy *decide.Policy) { a.policy = *policy }

// Assessment is what is known of a pressure, and what decide makes of it.
type Assessment struct {
	Situation *decide.Situation
	Plan      decide.Plan
	// Hold other than HoldNone says that no pod is evicted, and Detail why.
	Hold   decide.Hold
	Detail string
}

// Assess assesses a pressure in three steps: by what is known, by what the pods use, and by a second
// look at the node.
func (a *Assessor) Assess(ctx context.Context, sample *pressure.Sample, p *pressure.Pressure) Assessment {
	s := a.situation(ctx, sample, p)
	done := Assessment{Situation: s}
	if done.decide(s); done.Hold != decide.HoldNone {
		return done
	}
	if done.Hold, done.Detail = a.measure(ctx, s); done.Hold != decide.HoldNone {
		return done
	}
	if done.decide(s); done.Hold != decide.HoldNone {
		return done
	}
	again := a.options.Sample()
	done.Hold, done.Detail = s.LookAgain(a.options.Memories.Victims.Without(&again))
	return done
}

// Margin returns by how much more is in flight than a hard pressure of memory or tasks needs, in the
// signal's unit. A pod that continues to take memory uses that up: a tenth of a second is soon enough
// when there is only a recovery to notice, and is 100 MB for a pod that takes a gigabyte a second. It
// returns false where the pressure does not wait for what is in flight.
func (d *Assessment) Margin() (int64, bool) {
	threshold := &d.Situation.Pressure.Threshold
	if d.Hold != decide.HoldReclaimInProgress || !threshold.Hard || threshold.Signal.OnDisk() {
		return 0, false
	}
	short := d.Situation.Shortage()
	return short.Margin(), true
}

func (d *Assessment) decide(s *decide.Situation) { d.Plan, d.Hold, d.Detail = decide.Decide(s) }

// situation puts together what is known of a pressure before the pods are measured.
func (a *Assessor) situation(ctx context.Context, sample *pressure.Sample, p *pressure.Pressure) *decide.Situation {
	signal, pods, m := p.Threshold.Signal, a.options.Pods, a.options.Memories
	s := &decide.Situation{
		Pressure: *p, Sample: sample, Incident: m.IncidentOf(p), Met: m.MetSince(p), Policy: &a.policy, Self: a.options.Self,
		Unsynced: !pods.Synced(), Stale: pods.Stale(), Pods: pods.List(),
		LastEnd: m.Victims.LastEnd(), ReachBack: measure.ReachBack(p),
		WouldBe: m.Victims.Simulated, Simulated: m.Victims.SimulatedAmount(signal),
		Cooldown: m.Cooldown, UnknownUntil: m.Victims.UnknownUntil(signal),
	}
	s.InFlight = m.Victims.For(s)
	s.InDoubt, s.Others = m.Victims.Doubts(s.Resource(), p.SampleTime)
	a.options.Measurer.FollowImages(ctx, &s.Pressure, s.Incident, pods.List)
	return s
}

// measure adds what the pods use to a situation, and brings what is in flight up to date by it. A
// hold other than HoldNone says that it is not known well enough to decide by.
func (a *Assessor) measure(ctx context.Context, s *decide.Situation) (decide.Hold, string) {
	p, victims := &s.Pressure, a.options.Memories.Victims
	query := a.queryOf(s)
	if hold, detail := a.options.Measurer.StalledByItself(&query); hold != decide.HoldNone {
		return hold, detail
	}
	uses, hold, detail := a.options.Measurer.Uses(ctx, &query)
	if hold != decide.HoldNone {
		return hold, detail
	}
	s.Uses = uses
	s.InFlight = victims.For(s)
	victims.Measured(s)
	if a.options.KubeletGap != nil && p.Threshold.Signal == pressure.MemoryAvailable {
		s.KubeletGap = a.options.KubeletGap(p.SampleTime)
	}
	s.Breakdown = measure.Breakdown(p, uses)
	s.Images.Hold, s.Images.Detail, s.Images.Note = a.options.Measurer.ImagesFirst(p, uses, s.Shortage().Missing)
	return decide.HoldNone, ""
}

// queryOf returns the query for what the pods use, for a decision about the pressure. A measurement
// of a disk must be newer than the end of evictd's last victim.
func (a *Assessor) queryOf(s *decide.Situation) measure.Query {
	return measure.Query{
		Pressure: &s.Pressure, Pods: s.Pods, Incident: s.Incident,
		NewerThan: a.options.Memories.Victims.LastEnd(), Enough: s.Required(),
	}
}
