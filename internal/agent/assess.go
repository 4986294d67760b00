package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/pkg/pressure"
)

// assess puts together what is known of a pressure and asks decide what to do about it, in three steps:
// by what is known, by what the pods use, and by a second look at the node. Of what the agent remembers it
// changes only what the victims should still free.
func (a *Agent) assess(ctx context.Context, sample *pressure.Sample, p *pressure.Pressure) (*decide.Situation, decide.Plan) {
	s := a.situation(sample, p)
	if plan := decide.BeforeMeasuring(s); plan.Held() {
		return s, plan
	}
	a.measure(ctx, s)
	plan := decide.Decide(s)
	if !plan.Held() {
		again := a.sample()
		plan.LookAgain(s, a.victims.Without(&again))
	}
	return s, plan
}

// measureAhead has the disks measured before a hard threshold of one is met: then the first decision knows by how much each
// pod has grown. What is met already the decisions measure.
func (a *Agent) measureAhead(ctx context.Context, verdict *pressure.Verdict) {
	for _, signal := range pressure.Signals() {
		if f := &verdict.Forecasts[signal]; signal.OnDisk() && f.Known && f.After > 0 && f.After < 2*decide.DiskEvery {
			a.measurer.RefreshDisk(ctx, verdict.Time, a.options.Pods.List(), decide.DiskEvery)
		}
	}
}

// warn has an Event written on the first candidate of a soft threshold whose grace period runs, once for an incident.
// While there is no candidate, or what the pods use is not known, it looks again after [LookEvery].
func (a *Agent) warn(ctx context.Context, sample *pressure.Sample, verdict *pressure.Verdict) {
	if a.planned != nil || verdict.Time.Sub(a.compared) < LookEvery {
		return
	}
	for i := range verdict.Waiting {
		p, measured := &verdict.Waiting[i], a.measurer.LastDisk().At
		if p.Threshold.Signal.OnDisk() && measured.Before(p.Since) && verdict.Time.Sub(measured) < decide.DiskEvery {
			continue // a line that is crossed again and again asks for no measurement each time
		}
		told := a.incidents.Warn(p, a.policy.DryRun, func() bool {
			a.compared = verdict.Time
			return a.warnFirst(ctx, sample, p)
		})
		a.changed = a.changed || told
	}
}

// warnFirst tells the first candidate by what is known now, and returns whether there is one. That a soft eviction
// has to wait is no reason against it.
func (a *Agent) warnFirst(ctx context.Context, sample *pressure.Sample, p *pressure.Pressure) bool {
	s := a.situation(sample, p)
	if early := decide.BeforeMeasuring(s).Decision.Hold; early != decide.HoldNone && early != decide.HoldSoftJitter {
		return false
	}
	a.measure(ctx, s)
	plan := decide.Decide(s)
	if plan.Held() || len(plan.Candidates) == 0 {
		return false
	}
	a.options.Recorder.Likely(&plan.Decision, &plan.Candidates[0].Attempt)
	return true
}

// situation puts together what is known of a pressure before the pods are measured.
func (a *Agent) situation(sample *pressure.Sample, p *pressure.Pressure) *decide.Situation {
	pods := a.options.Pods
	s := &decide.Situation{
		Pressure: *p, Sample: sample, Policy: &a.policy.Policy,
		Unsynced: !pods.Synced(), Stale: pods.Stale(), Pods: pods.List(), Cooldown: a.cooldown,
	}
	a.incidents.Into(s)
	a.victims.Into(s)
	s.Stalls = a.measurer.Stalls(s)
	return s
}

// measure adds what the pods use to a situation, as far as it is known, and what is in flight by that.
func (a *Agent) measure(ctx context.Context, s *decide.Situation) {
	p := &s.Pressure
	s.KubeletLine = a.policy.KubeletLine(p.Threshold.Signal, p.Observed.Capacity, func() int64 { return a.options.KubeletGap(p.SampleTime) })
	s.Uses = a.measurer.Uses(ctx, s)
	a.victims.Measured(s)
	s.Images = a.measurer.Images(ctx, s)
}

// LookEvery is how often a plan that is being carried out is compared with the pods that terminate
// since, and with a hard pressure that is not held any more, and how often a pod to warn is looked for: that reads all
// pods' cgroups, two milliseconds' work at most for 110 pods, and near a threshold there are a hundred ticks a second.
const LookEvery = 200 * time.Millisecond

// cancelWhenOutdated cancels what is being carried out when the node does not need it any more,
// needs another sooner, or cannot be read.
func (a *Agent) cancelWhenOutdated(ctx context.Context, sample *pressure.Sample, verdict *pressure.Verdict) {
	why, urgent := decide.Obsolete(a.planned, &a.policy.Policy, sample, verdict)
	if why == "" && verdict.Time.Sub(a.compared) >= LookEvery {
		a.compared = verdict.Time
		why, urgent = a.obsolete(ctx, sample, verdict)
	}
	if why != "" {
		a.executor.Cancel(errors.New(why), urgent)
	}
}

// obsolete says why the plan that is being carried out should be canceled by what the pods use now; ""
// where it should not. Urgent says that it cannot wait, because a hard pressure is to be dealt with: one
// of any signal that was held when a soft plan began and would evict now, for example because a reading
// is available again, or because the pods in flight no longer suffice. While a hard pressure is held, even
// permanently, soft plans continue.
func (a *Agent) obsolete(ctx context.Context, sample *pressure.Sample, verdict *pressure.Verdict) (why string, urgent bool) {
	planned := &a.planned.Pressure.Threshold
	for i := range verdict.Pressures {
		p := &verdict.Pressures[i]
		now := &p.Threshold
		switch own := now.Signal == planned.Signal && now.Hard == planned.Hard; {
		case own && a.options.Pods.Synced():
			s := a.situation(sample, p)
			a.measure(ctx, s)
			if enough := s.Covered(); enough != "" {
				return enough, false
			}
		case !own && !planned.Hard && now.Hard:
			if _, plan := a.assess(ctx, sample, p); !plan.Held() {
				return fmt.Sprintf("nothing holds the hard pressure of %v any more", now.Signal), true
			}
		}
	}
	return "", false
}
