package agent

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/evictd/evictd/pkg/pressure"
)

// leavingEvery is how often a walk's node is looked at for pods that have begun to leave:
// that reads all pods' cgroups, two milliseconds' work at most for 110 pods, and near a
// threshold there are a hundred ticks a second.
const leavingEvery = 200 * time.Millisecond

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
		p.interrupt.raise("the hard threshold of " + met.Threshold.Signal.String() + " was met meanwhile")
		p.interrupt.request.withdrawIfHanging(time.Now())
		return
	}
	if enough := a.leavesMeanwhile(ctx, p, verdict); enough != "" {
		p.interrupt.raise(enough)
	}
}

// hardSince returns a hard pressure, of whatever signal, that began after a soft walk did;
// nil when there is none. It has no time for what else the walk would ask for, nor for a
// soft grace period. One that was there before had its decision first.
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

// leavesMeanwhile books who has begun to leave since the decision and says that it
// suffices; "" when it does not, or nobody knows.
func (a *Agent) leavesMeanwhile(ctx context.Context, p *plan, verdict *pressure.Verdict) string {
	planned := &p.decision.Pressure.Threshold
	at := slices.IndexFunc(verdict.Pressures, func(now pressure.Pressure) bool {
		return now.Threshold.Signal == planned.Signal && now.Threshold.Hard == planned.Hard
	})
	if at < 0 || !a.options.Pods.Synced() || verdict.Time.Sub(a.looked) < leavingEvery {
		return ""
	}
	a.looked = verdict.Time
	now, pods := &verdict.Pressures[at], a.options.Pods.List()
	uses, hold, _ := a.measure(ctx, now, pods)
	if hold != HoldNone {
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
