package agent

import (
	"context"
	"time"

	"github.com/evictd/evictd/internal/acting"
	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/taint"
	"github.com/evictd/evictd/pkg/pressure"
)

// tick reads the node once, judges, and acts or says why not. It returns the time
// until the next one.
func (a *Agent) tick(ctx context.Context) time.Duration {
	started := time.Now()
	if now := a.policy.Acting(); now != a.acts {
		a.putActing(now, now.String())
	}
	ended := a.updateVictims(ctx, started)
	sample, verdict := a.look()
	a.wantTaints(verdict)
	a.measurer.ObserveStalls(sample, a.policy.Thresholds, a.victims.Simulated)
	a.victims.Observe(sample, a.incidents.Any())
	next := a.pacer.Next(sample)
	if a.planned != nil {
		a.cancelWhenOutdated(ctx, sample, verdict)
	} else {
		next = a.relieve(ctx, sample, verdict, next)
		a.warn(ctx, sample, verdict)
	}
	for _, victim := range a.victims.ObserveReclaim(started, ended, a.sample) {
		a.options.Recorder.VictimEnded(&victim)
	}
	a.keepChanged()
	a.measurer.WarmUp(sample.Time)
	a.measureAhead(ctx, verdict)
	a.ticked(started, sample, verdict)
	return next
}

// updateVictims brings the list of victims up to date before the node is read, and returns those
// that have gone. What the watch reports resolves requests in doubt that were carried out.
func (a *Agent) updateVictims(ctx context.Context, now time.Time) []decide.Victim {
	ended, carriedOut := a.victims.Update(ctx, now)
	a.changed = a.changed || len(ended) > 0
	if len(ended) > 0 && a.options.Keep != nil { // the record has what was available before and behind the end
		a.keepSignals()
		a.documents.kept = time.Time{}
	}
	if a.options.Pods.Synced() {
		blocked, misconfigured := a.cooldown.Waiting(now, a.victims.Present)
		a.options.Recorder.Ledger(now, a.victims.All(), blocked, misconfigured)
	}
	for _, open := range carriedOut {
		if a.planned == nil && !a.victims.Terminates(open.UID()) { // by one before in this loop
			a.takeReport(open.CarriedOut(time.Now(), "the watch of the pods", a.victims.All()))
		}
	}
	return ended
}

// sample reads the node.
func (a *Agent) sample() pressure.Sample { return a.options.Sample(time.Now()) }

// look reads the node and judges it, and opens and closes incidents. The sample is without the would-be victims of
// a dry run.
func (a *Agent) look() (*pressure.Sample, *pressure.Verdict) {
	seen := a.sample()
	sample := a.victims.Without(&seen)
	verdict := a.judge.Judge(sample)
	if !verdict.Stale {
		began, ended := a.incidents.Observe(sample, a.policy.Thresholds, a.policy.Transition)
		a.options.Recorder.Incidents(began, ended)
		a.changed = a.changed || len(began)+len(ended) > 0
	}
	a.options.Recorder.Sample(&seen, &verdict)
	return sample, &verdict
}

// wantTaints says which taints the node should carry.
func (a *Agent) wantTaints(verdict *pressure.Verdict) {
	if verdict.Stale {
		return
	}
	want := taint.Wanted{Keep: a.acts.Reason == acting.StopUnknown}
	if a.policy.TaintNode && !want.Keep {
		want = taint.WantedBy(verdict, verdict.Time.Sub(a.watched), a.policy.Transition, a.policy.TaintSoft, a.policy.DryRun)
	}
	a.options.Taints.Want(want)
}

// relieve deals with the pressures in order until one of them has a plan, which is carried out beside
// the loop: that continues to watch the node and decides nothing until the report is there. A verdict on
// a stale sample has no pressure. It returns how long the next tick may wait: where more is in flight
// than a hard pressure needs, until half of that margin is used up at the fastest rate of the last
// seconds. The first margin is memory's, where memory is short.
func (a *Agent) relieve(ctx context.Context, sample *pressure.Sample, verdict *pressure.Verdict, next time.Duration) time.Duration {
	dealt, bounded := [pressure.SignalCount]bool{}, false
	for i := range verdict.Pressures {
		p := &verdict.Pressures[i]
		signal := p.Threshold.Signal
		if dealt[signal] {
			continue // its hard threshold holds too and comes first
		}
		dealt[signal] = true
		s, plan := a.assess(ctx, sample, p)
		if !plan.Held() {
			a.keepChanged()
			a.planned, a.known = &plan.Decision, a.export() // known is kept with each of its requests
			a.compared = sample.Time                        // it was made by what a comparison now would read
			a.executor.Start(ctx, plan)
			a.documents.kept = time.Time{} // the record has what this was decided by
			return next
		}
		if plan.NoneLeft() {
			a.cooldown.Retry(signal)
		}
		if margin, waits := s.Margin(&plan.Decision); waits && !bounded {
			next, bounded = min(next, a.pacer.Until(signal, margin/2)), true
		}
		a.options.Recorder.Decision(&plan.Decision)
	}
	return next
}
