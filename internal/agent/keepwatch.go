package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/pkg/pressure"
)

// lookEvery is how often a walk's node is looked at for pods that have begun to leave, and for
// a hard pressure that nothing holds any more: that reads all pods' cgroups, two milliseconds'
// work at most for 110 pods, and near a threshold there are a hundred ticks a second.
const lookEvery = 200 * time.Millisecond

// keepWatch cancels what is being carried out when the node does not need it any
// more, needs it sooner, or cannot be read.
func (a *Agent) keepWatch(ctx context.Context, d *decide.Decision, sample *pressure.Sample, verdict *pressure.Verdict) {
	if fault := a.incomplete(sample, d.Pressure.Threshold.Signal); fault != "" {
		a.executor.Cancel(errors.New(fault))
		return
	}
	if !d.Pressure.HoldsIn(sample) {
		a.executor.Cancel(errors.New("recovered meanwhile"))
		return
	}
	if met := hardSince(d, verdict); met != nil {
		a.executor.GiveWay(fmt.Errorf("the hard threshold of %v was met meanwhile", met.Threshold.Signal))
		return
	}
	if verdict.Time.Sub(a.looked) < lookEvery {
		return
	}
	a.looked = verdict.Time
	if free := a.hardFree(ctx, d, sample, verdict); free != nil {
		a.executor.GiveWay(fmt.Errorf("nothing holds the hard pressure of %v any more", free.Threshold.Signal))
		return
	}
	if enough := a.leavesMeanwhile(ctx, d, verdict); enough != "" {
		a.executor.Cancel(errors.New(enough))
	}
}

// hardSince returns a hard pressure, of whatever signal, that began after a soft walk did;
// nil when there is none. It has no time for what else the walk would ask for, nor for a
// soft grace period. One that was there before had its decision first, see hardFree.
func hardSince(d *decide.Decision, verdict *pressure.Verdict) *pressure.Pressure {
	if d.Pressure.Threshold.Hard {
		return nil
	}
	for i := range verdict.Pressures {
		if met := &verdict.Pressures[i]; met.Threshold.Hard && met.Since.After(d.Time) {
			return met
		}
	}
	return nil
}

// hardFree returns a hard pressure, of whatever signal, that was held when a soft walk began
// and would evict now: a reading is there again, say, or what was in flight does not suffice
// any more. Nil when there is none: while a hard pressure is held, for good perhaps, soft walks
// go on.
func (a *Agent) hardFree(ctx context.Context, d *decide.Decision, sample *pressure.Sample, verdict *pressure.Verdict) *pressure.Pressure {
	if d.Pressure.Threshold.Hard {
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

// leavesMeanwhile books who has begun to leave since the decision and says that it
// suffices; "" when it does not, or nobody knows.
func (a *Agent) leavesMeanwhile(ctx context.Context, d *decide.Decision, verdict *pressure.Verdict) string {
	planned := &d.Pressure.Threshold
	at := slices.IndexFunc(verdict.Pressures, func(now pressure.Pressure) bool {
		return now.Threshold.Signal == planned.Signal && now.Threshold.Hard == planned.Hard
	})
	if at < 0 || !a.options.Pods.Synced() {
		return ""
	}
	now, pods := &verdict.Pressures[at], a.options.Pods.List()
	query := a.queryOf(now, pods)
	uses, hold, _ := a.measurer.Uses(ctx, &query)
	if hold != decide.HoldNone {
		return ""
	}
	a.bookLeaving(now, pods, uses)
	_, enough := a.onItsWay(now)
	return enough
}
