package agent

import (
	"context"
	"errors"
	"time"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/taint"
	"github.com/evictd/evictd/pkg/pressure"
)

// tick reads the node once, judges, and acts or says why not. It returns the time
// until the next one.
func (a *Agent) tick(ctx context.Context) time.Duration {
	if a.policy.Acting.Ask() {
		a.putActing(a.policy.Acting.String())
	}
	started := a.options.Clock.Now()
	ended := a.updateVictims(ctx, started)
	sample, verdict := a.look()
	a.observe(sample, verdict)
	next := a.pacer.Next(sample)
	if a.planned != nil {
		a.cancelWhenOutdated(ctx, sample, verdict)
	} else {
		next = min(next, a.relieve(ctx, sample, verdict))
	}
	a.tellVictims(started, ended)
	a.memories.Save()
	a.assessor.WarmUp(sample)
	a.health.Observe(started, sample, verdict)
	a.options.Recorder.Tick(started, a.options.Clock.Since(started))
	return next
}

// updateVictims brings the list of victims up to date before the node is read, and returns those
// that have gone.
func (a *Agent) updateVictims(ctx context.Context, now time.Time) []decide.Victim {
	ended := a.memories.ForgetGone(now)
	if a.options.Pods.Synced() {
		a.options.Recorder.Ledger(now, a.memories.Victims.All())
		a.options.Recorder.LeftAlone(a.memories.Cooldown.Waiting(now))
	}
	a.reconcileInDoubt(now)
	a.memories.BeforeReading(ctx, now)
	return ended
}

// sample reads the node.
func (a *Agent) sample() pressure.Sample { return a.options.Sampler.Sample(a.options.Clock.Now()) }

// look reads the node and judges it. The sample is without the would-be victims of a dry run.
func (a *Agent) look() (*pressure.Sample, *pressure.Verdict) {
	seen := a.sample()
	sample := a.memories.Victims.Without(&seen)
	verdict := a.judge.Judge(sample)
	a.followIncidents(sample, &verdict)
	a.options.Recorder.Sample(&seen, &verdict)
	return sample, &verdict
}

// followIncidents opens and closes incidents by a sample, and reports both.
func (a *Agent) followIncidents(sample *pressure.Sample, verdict *pressure.Verdict) {
	if verdict.Stale {
		return
	}
	began, ended := a.memories.FollowIncidents(sample, a.policy.Thresholds, a.policy.Transition)
	for i := range began {
		a.options.Recorder.IncidentBegan(&began[i])
	}
	for i := range ended {
		a.options.Recorder.IncidentEnded(&ended[i])
	}
}

// observe lets all that remembers or follows the node's readings see this one.
func (a *Agent) observe(sample *pressure.Sample, verdict *pressure.Verdict) {
	a.wantTaints(verdict)
	a.measurer.ObserveStalls(sample, a.policy.Thresholds, a.memories.Victims.Simulated)
	a.memories.Observe(sample)
	for i := range verdict.Pressures {
		a.decisions.Follow(&verdict.Pressures[i], a.memories.IncidentOf(&verdict.Pressures[i]))
	}
}

// wantTaints says which taints the node should carry.
func (a *Agent) wantTaints(verdict *pressure.Verdict) {
	if a.options.Taints == nil || verdict.Stale {
		return
	}
	want := taint.Wanted{Keep: a.policy.Acting.Reason.Unknown()}
	if a.policy.TaintNode && !want.Keep {
		want = taint.WantedBy(verdict, verdict.Time.Sub(a.watched), a.policy.Transition, a.policy.DryRun)
	}
	a.options.Taints.Want(want)
}

// cancelWhenOutdated cancels what is being carried out when the node does not need it any more,
// needs another sooner, or cannot be read.
func (a *Agent) cancelWhenOutdated(ctx context.Context, sample *pressure.Sample, verdict *pressure.Verdict) {
	switch why, giveWay := a.assessor.Outdated(ctx, a.planned, sample, verdict); {
	case giveWay:
		a.executor.GiveWay(errors.New(why))
	case why != "":
		a.executor.Cancel(errors.New(why))
	}
}

// relieve deals with the pressures in order until one of them has sent a request. A verdict on a
// stale sample has none. It returns how long the next tick may wait: where more is in flight than a
// hard pressure needs, until half of that margin is used up at the fastest rate of the last seconds.
func (a *Agent) relieve(ctx context.Context, sample *pressure.Sample, verdict *pressure.Verdict) time.Duration {
	wait, bounded := a.policy.Pacing.Max, false
	dealt := [pressure.SignalCount]bool{}
	for i := range verdict.Pressures {
		p := &verdict.Pressures[i]
		signal := p.Threshold.Signal
		if dealt[signal] {
			continue // its hard threshold holds too and comes first
		}
		dealt[signal] = true
		if a.options.Pods.Synced() && a.options.Pods.Stale() == nil {
			a.memories.DrawJitter(p)
		}
		assessed := a.assessor.Assess(ctx, sample, p)
		if assessed.Plan.NoneLeft() {
			a.memories.Cooldown.Retry(signal)
		}
		if assessed.Hold == decide.HoldNone {
			a.act(ctx, assessed.Plan)
			return wait
		}
		if margin, waits := assessed.Margin(); waits && !bounded { // the first is memory's, where memory is short
			wait, bounded = a.pacer.Until(signal, margin/2), true
		}
		a.decisions.Hold(&assessed.Plan.Decision, assessed.Hold, assessed.Detail)
	}
	return wait
}

// act has a plan carried out. Meanwhile the loop continues to watch the node and decides nothing
// until the report is there.
func (a *Agent) act(ctx context.Context, p decide.Plan) {
	a.decisions.Number(&p.Decision)
	d := p.Decision
	a.planned = &d
	a.memories.BeforePlan()
	a.executor.Start(ctx, p)
}

// takeReport takes what became of a plan, or of a request in doubt: it completes the decision,
// has it remembered, and records it.
func (a *Agent) takeReport(r decide.Report) {
	now, d := a.options.Clock.Now(), a.planned
	if r.About != nil {
		d = r.About.Decision(now, a.memories.Victims.All())
	}
	a.planned = nil
	d.Verb, d.BestEffort, d.Detail, d.Attempts = r.Verb, r.BestEffort, r.Detail, r.Attempts
	d.Notes = append(d.Notes, r.Notes...)
	a.memories.Learn(d, &r, now)
	a.decisions.Reported(d, r.Hold, r.Detail)
}

// reconcileInDoubt resolves requests in doubt by what the watch reports.
func (a *Agent) reconcileInDoubt(now time.Time) {
	if a.planned != nil {
		return
	}
	for _, open := range a.memories.Victims.Reconcile(now) {
		if !a.memories.Victims.Terminates(open.UID()) { // by one before in this loop
			a.takeReport(decide.Reconciled(open, "the watch of the pods"))
		}
	}
}

// tellVictims reports what the end of each of these victims freed on the node.
func (a *Agent) tellVictims(now time.Time, ended []decide.Victim) {
	for _, victim := range a.memories.Victims.ObserveReclaim(now, ended, a.sample) {
		a.options.Recorder.VictimEnded(&victim)
	}
}
