package agent

import (
	"context"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/measure"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
)

// assess puts together what is known of a pressure and asks decide what to do about it, in three steps:
// by what is known, by what the pods use, and by a second look at the node. It changes nothing that the
// agent remembers.
func (a *Agent) assess(ctx context.Context, sample *pressure.Sample, p *pressure.Pressure) (*decide.Situation, decide.Plan) {
	s := a.situation(ctx, sample, p)
	if plan := decide.BeforeMeasuring(s); plan.Held() {
		return s, plan
	}
	if hold, detail := a.measure(ctx, s); hold != decide.HoldNone {
		return s, decide.HoldBy(s, hold, detail)
	}
	plan := decide.Decide(s)
	if !plan.Held() {
		again := a.sample()
		plan.LookAgain(s, a.victims.Without(&again))
	}
	return s, plan
}

// situation puts together what is known of a pressure before the pods are measured.
func (a *Agent) situation(ctx context.Context, sample *pressure.Sample, p *pressure.Pressure) *decide.Situation {
	signal, pods := p.Threshold.Signal, a.options.Pods
	s := &decide.Situation{
		Pressure: *p, Sample: sample, Incident: a.incidentOf(p), Met: a.metSince(p), Policy: &a.policy.Policy, Self: a.options.Self,
		Unsynced: !pods.Synced(), Stale: pods.Stale(), Pods: pods.List(),
		LastEnd: a.victims.LastEnd(), ReachBack: measure.ReachBack(p), UnknownUntil: a.victims.UnknownUntil(signal),
		WouldBe: a.victims.Simulated, Simulated: a.victims.SimulatedAmount(signal), Cooldown: a.cooldown,
	}
	s.InFlight = a.victims.For(s)
	s.InDoubt, s.Others = a.victims.Doubts(s.Resource(), p.SampleTime)
	a.measurer.FollowImages(ctx, &s.Pressure, s.Incident, pods.List)
	return s
}

// measure adds what the pods use to a situation. A hold other than HoldNone says that it is not known
// well enough to decide by.
func (a *Agent) measure(ctx context.Context, s *decide.Situation) (decide.Hold, string) {
	p, query := &s.Pressure, a.queryOf(s)
	if hold, detail := a.measurer.StalledByItself(&query); hold != decide.HoldNone {
		return hold, detail
	}
	if hold, detail := a.measureUses(ctx, s); hold != decide.HoldNone {
		return hold, detail
	}
	if a.options.KubeletGap != nil && p.Threshold.Signal == pressure.MemoryAvailable {
		s.KubeletGap = a.options.KubeletGap(p.SampleTime)
	}
	s.Breakdown = measure.Breakdown(p, s.Uses)
	s.Images.Hold, s.Images.Detail, s.Images.Note = a.measurer.ImagesFirst(p, s.Uses, s.Shortage().Missing)
	return decide.HoldNone, ""
}

// measureUses adds what the pods use, and what is in flight by that.
func (a *Agent) measureUses(ctx context.Context, s *decide.Situation) (decide.Hold, string) {
	query := a.queryOf(s)
	uses, hold, detail := a.measurer.Uses(ctx, &query)
	if hold == decide.HoldNone {
		s.Uses = uses
		s.InFlight = a.victims.For(s)
	}
	return hold, detail
}

// queryOf returns the query for what the pods use, for a decision about the pressure. A measurement
// of a disk must be newer than the end of evictd's last victim.
func (a *Agent) queryOf(s *decide.Situation) measure.Query {
	return measure.Query{
		Pressure: &s.Pressure, Pods: s.Pods, Incident: s.Incident, NewerThan: s.LastEnd, Enough: s.Required(),
	}
}

// warmUp runs an assessment up to the ranking and discards the result. Otherwise the first decision
// of a process, which may come after a month, would open three files for each pod and run code that
// is not in memory, just when the node has none left. An error in reading the pods would also be
// noticed only then. It goes on under pressure: a disk's may last for days, and its decisions read no
// cgroups.
func (a *Agent) warmUp(sample *pressure.Sample) {
	if !a.options.Pods.Synced() || !a.measurer.WarmUpDue(sample.Time) {
		return
	}
	pods := a.options.Pods.List()
	if uses := a.measurer.WarmUp(pods, sample.Time); uses != nil {
		rank.Order(rank.Memory, uses.Facts(pressure.MemoryAvailable, pods, a.options.Self), a.policy.Rules)
	}
}
