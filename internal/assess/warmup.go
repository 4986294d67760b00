package assess

import (
	"context"

	"github.com/evictd/evictd/internal/measure"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
)

// Approach has the pods' disk use measured while a disk is expected to reach its hard threshold soon.
func (a *Assessor) Approach(ctx context.Context, sample *pressure.Sample, verdict *pressure.Verdict) {
	if !a.options.Pods.Synced() {
		return
	}
	for signal := range verdict.Forecasts {
		forecast := &verdict.Forecasts[signal]
		if pressure.Signal(signal).OnDisk() && forecast.Known && forecast.After > 0 && forecast.After <= measure.ApproachesWithin {
			a.options.Measurer.Approach(ctx, sample, a.options.Pods.List())
			return
		}
	}
}

// WarmUp runs an assessment up to the ranking and discards the result. Otherwise the first decision
// of a process, which may come after a month, would open three files for each pod and run code that
// is not in memory, just when the node has none left. An error in reading the pods would also be
// noticed only then. Where a threshold holds, the decisions read the pods themselves.
func (a *Assessor) WarmUp(sample *pressure.Sample, verdict *pressure.Verdict) {
	now, waiting := sample.Time, len(verdict.Waiting) > 0
	if len(verdict.Pressures) > 0 || !a.options.Pods.Synced() || !a.options.Measurer.WarmUpDue(now, waiting) {
		return
	}
	pods, victims := a.options.Pods.List(), a.options.Memories.Victims
	victims.ObserveEnding(pods, now)
	if uses := a.options.Measurer.WarmUp(pods, sample); uses != nil {
		victims.ObserveUnlisted(pods, uses, now)
		rank.Order(rank.Memory, uses.Facts(pressure.MemoryAvailable, pods, a.options.Self), a.policy.Rules)
	}
}
