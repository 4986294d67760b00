package agent

import (
	"context"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/measure"
	"github.com/evictd/evictd/pkg/pressure"
)

// consider decides about a pressure: what is known, then what the pods use, then a second look at
// the node. A hold other than HoldNone says that no pod is evicted, and why.
func (a *Agent) consider(ctx context.Context, sample *pressure.Sample, p pressure.Pressure) (*decide.Situation, decide.Plan, decide.Hold, string) {
	s := a.situation(ctx, sample, p)
	plan, hold, detail := decide.Decide(s)
	if hold != decide.HoldNone {
		return s, plan, hold, detail
	}
	if hold, detail = a.measure(ctx, s); hold != decide.HoldNone {
		return s, plan, hold, detail
	}
	if plan, hold, detail = decide.Decide(s); hold != decide.HoldNone {
		return s, plan, hold, detail
	}
	again := a.options.Sampler.Sample(a.options.Clock.Now())
	hold, detail = s.LookAgain(a.victims.Simulated().AddTo(&again))
	return s, plan, hold, detail
}

// situation puts together what is known of a pressure before the pods are measured.
func (a *Agent) situation(ctx context.Context, sample *pressure.Sample, p pressure.Pressure) *decide.Situation {
	signal := p.Threshold.Signal
	s := &decide.Situation{
		Pressure: p, Sample: sample, Incident: a.incidentOf(&p), Policy: &a.policy.Policy, Self: a.options.Self,
		Unsynced: !a.options.Pods.Synced(), Stale: a.podsStale(), Pods: a.options.Pods.List(),
		InFlight: a.victims.All(), LastEnd: a.victims.LastEnd(signal), ReachBack: measure.ReachBack(&p),
		WouldBe: a.victims.Simulated().Has, Simulated: a.victims.Simulated().Amount(signal),
		Cooldown: a.cooldown, Space: a.spaceOf(signal),
	}
	s.InDoubt, s.InDoubtRests = a.victims.InDoubt.Of(s.Resource())
	s.FreeOnLists = a.victims.FreeOn(signal)
	a.measurer.FollowImages(ctx, &p, s.Incident, a.options.Pods.List)
	return s
}

// spaceOf returns what is known of a disk's space that comes back.
func (a *Agent) spaceOf(signal pressure.Signal) decide.Space {
	if !signal.OnDisk() {
		return decide.Space{}
	}
	back, since := a.victims.Returning(signal)
	return decide.Space{Returning: back, ReturningSince: since, LastEnd: a.victims.LastDiskEnd(), Rise: a.measurer.Rise(signal)}
}

// measure adds what the pods use to a situation, and brings what is in flight up to date by it. A
// hold other than HoldNone says that it is not known well enough to decide by.
func (a *Agent) measure(ctx context.Context, s *decide.Situation) (decide.Hold, string) {
	p := &s.Pressure
	a.victims.ObserveEnding(s.Pods, p.SampleTime)
	query := a.queryOf(s)
	if hold, detail := a.measurer.StalledByItself(&query); hold != decide.HoldNone {
		return hold, detail
	}
	uses, hold, detail := a.measurer.Uses(ctx, &query)
	if hold != decide.HoldNone {
		return hold, detail
	}
	a.victims.ObserveUses(s, uses)
	if a.options.KubeletGap != nil && p.Threshold.Signal == pressure.MemoryAvailable {
		s.KubeletGap = a.options.KubeletGap(p.SampleTime)
	}
	s.Breakdown = measure.Breakdown(p, uses)
	s.InDoubt, s.Others = a.victims.InDoubt.For(s.Resource(), p.SampleTime, a.victims.Booked)
	s.Images.Hold, s.Images.Detail, s.Images.Note = a.measurer.ImagesFirst(p, uses, s.Shortage().Missing)
	return decide.HoldNone, ""
}

// queryOf returns the query for what the pods use, for a decision about the pressure. A measurement
// of a disk must be newer than the end of evictd's own last victim. The end of other pods does not
// count: on a node with short jobs pods end all the time.
func (a *Agent) queryOf(s *decide.Situation) measure.Query {
	return measure.Query{
		Pressure: &s.Pressure, Pods: s.Pods, Incident: s.Incident, NewerThan: a.victims.LastOwnEnd(), Enough: s.Required(),
	}
}

// podsStale returns why the list of pods cannot be relied on any more; nil while it can.
func (a *Agent) podsStale() error {
	if a.options.PodsStale == nil {
		return nil
	}
	return a.options.PodsStale()
}
