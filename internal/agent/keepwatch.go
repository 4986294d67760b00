package agent

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/pkg/pressure"
)

// lookEvery is how often a walk's node is looked at for pods that have begun to leave, and for
// a hard pressure that nothing holds any more: that reads all pods' cgroups, two milliseconds'
// work at most for 110 pods, and near a threshold there are a hundred ticks a second.
const lookEvery = 200 * time.Millisecond

// interrupt ends a walk between two of its requests; a budget may take its time to
// refuse, and the world goes on meanwhile. The loop raises it, the walk looks.
type interrupt struct {
	reason  atomic.Pointer[string]
	request request
}

func (i *interrupt) raise(reason string) { i.reason.CompareAndSwap(nil, &reason) }

// keepWatch interrupts what is being carried out when the node does not need it any
// more, needs it sooner, or cannot be read.
func (a *Agent) keepWatch(ctx context.Context, p *plan, sample *pressure.Sample, verdict *pressure.Verdict) {
	if fault := a.incomplete(sample, p.decision.Pressure.Threshold.Signal); fault != "" {
		p.interrupt.raise(fault)
		return
	}
	if !p.decision.Pressure.HoldsIn(sample) {
		p.interrupt.raise("recovered meanwhile")
		return
	}
	if met := p.hardSince(verdict); met != nil {
		p.giveWay("the hard threshold of " + met.Threshold.Signal.String() + " was met meanwhile")
		return
	}
	if verdict.Time.Sub(a.looked) < lookEvery {
		return
	}
	a.looked = verdict.Time
	if free := a.hardFree(ctx, p, sample, verdict); free != nil {
		p.giveWay("nothing holds the hard pressure of " + free.Threshold.Signal.String() + " any more")
		return
	}
	if enough := a.leavesMeanwhile(ctx, p, verdict); enough != "" {
		p.interrupt.raise(enough)
	}
}

// hardSince returns a hard pressure, of whatever signal, that began after a soft walk did;
// nil when there is none. It has no time for what else the walk would ask for, nor for a
// soft grace period. One that was there before had its decision first, see hardFree.
func (p *plan) hardSince(verdict *pressure.Verdict) *pressure.Pressure {
	if p.decision.Pressure.Threshold.Hard {
		return nil
	}
	for i := range verdict.Pressures {
		if met := &verdict.Pressures[i]; met.Threshold.Hard && met.Since.After(p.decision.Time) {
			return met
		}
	}
	return nil
}

// hardFree returns a hard pressure, of whatever signal, that was held when a soft walk began
// and would evict now: a reading is there again, say, or what was in flight does not suffice
// any more. Nil when there is none: while a hard pressure is held, for good perhaps, soft walks
// go on.
func (a *Agent) hardFree(ctx context.Context, p *plan, sample *pressure.Sample, verdict *pressure.Verdict) *pressure.Pressure {
	if p.decision.Pressure.Threshold.Hard {
		return nil
	}
	for i := range verdict.Pressures {
		held := &verdict.Pressures[i]
		if !held.Threshold.Hard {
			continue
		}
		if _, hold, _ := a.decide(ctx, sample, *held); hold == decide.HoldNone {
			return held
		}
	}
	return nil
}

// giveWay ends a soft walk for a hard pressure, and the request that it has under way where
// that hangs.
func (p *plan) giveWay(reason string) {
	p.interrupt.raise(reason)
	p.interrupt.request.withdrawIfHanging(time.Now())
}

// leavesMeanwhile books who has begun to leave since the decision and says that it
// suffices; "" when it does not, or nobody knows.
func (a *Agent) leavesMeanwhile(ctx context.Context, p *plan, verdict *pressure.Verdict) string {
	planned := &p.decision.Pressure.Threshold
	at := slices.IndexFunc(verdict.Pressures, func(now pressure.Pressure) bool {
		return now.Threshold.Signal == planned.Signal && now.Threshold.Hard == planned.Hard
	})
	if at < 0 || !a.options.Pods.Synced() {
		return ""
	}
	now, pods := &verdict.Pressures[at], a.options.Pods.List()
	uses, hold, _ := a.measure(ctx, now, pods)
	if hold != decide.HoldNone {
		return ""
	}
	a.bookLeaving(now, pods, uses)
	_, enough := a.onItsWay(now)
	return enough
}

// endsEarly reports whether a walk should end although there is somebody left to ask for.
func endsEarly(ctx context.Context, p *plan) (last report, over bool) {
	d := p.decision
	if d.Detail = whyStop(ctx, p.interrupt); d.Detail != "" {
		return report{decision: d}, true
	}
	if d.Detail = aged(d); d.Detail != "" {
		return report{decision: d, aged: true}, true
	}
	return report{}, false
}

// nothingFurther ends the sentence that says why a walk was not walked to its end.
const nothingFurther = ": no further request was sent"

// whyStop returns why no further request should be sent; "" when one should.
func whyStop(ctx context.Context, i *interrupt) string {
	if ctx.Err() != nil {
		return "shutting down" + nothingFurther
	}
	if reason := i.reason.Load(); reason != nil {
		return *reason + nothingFurther
	}
	return ""
}
