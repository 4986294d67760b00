package assess

import (
	"context"
	"slices"

	"github.com/evictd/evictd/internal/measure"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
)

// Approach has the pods' disk use measured while a disk is expected to reach its hard threshold soon.
func (a *Assessor) Approach(ctx context.Context, sample *pressure.Sample, verdict *pressure.Verdict) {
	if !a.options.Pods.Synced() {
		return
	}
	if approaches(verdict, func(signal pressure.Signal) bool { return signal.OnDisk() }) {
		a.options.Measurer.Approach(ctx, sample, a.options.Pods.List())
	}
}

// near reports whether a decision that needs the pods' cgroups may come soon: a threshold is met, or is
// expected to be, or no more than as much again as its line is left. A forecast needs some seconds.
func (a *Assessor) near(sample *pressure.Sample, verdict *pressure.Verdict) bool {
	ofCgroups := func(signal pressure.Signal) bool { return !signal.OnDisk() }
	return len(verdict.Waiting) > 0 || approaches(verdict, ofCgroups) ||
		slices.ContainsFunc(a.policy.Thresholds, func(t pressure.Threshold) bool {
			seen := sample.Of(t.Signal)
			return ofCgroups(t.Signal) && seen.State == pressure.Known && seen.Available < 2*t.Quantity.Of(seen.Capacity)
		})
}

// approaches reports whether one of the signals is expected to reach its hard threshold soon.
func approaches(verdict *pressure.Verdict, of func(pressure.Signal) bool) bool {
	for signal := range verdict.Forecasts {
		f := &verdict.Forecasts[signal]
		if of(pressure.Signal(signal)) && f.Known && f.After > 0 && f.After <= measure.ApproachesWithin {
			return true
		}
	}
	return false
}

// WarmUp runs an assessment up to the ranking and discards the result. Otherwise the first decision
// of a process, which may come after a month, would open three files for each pod and run code that
// is not in memory, just when the node has none left. An error in reading the pods would also be
// noticed only then. While a threshold is near, this is done more often, so that the first decision can
// tell which pods use the signal up. Where a threshold holds, the decisions read the pods themselves.
func (a *Assessor) WarmUp(sample *pressure.Sample, verdict *pressure.Verdict) {
	now := sample.Time
	if len(verdict.Pressures) > 0 || !a.options.Pods.Synced() || !a.options.Measurer.WarmUpDue(now, a.near(sample, verdict)) {
		return
	}
	pods, victims := a.options.Pods.List(), a.options.Memories.Victims
	victims.ObserveEnding(pods, now)
	if uses := a.options.Measurer.WarmUp(pods, sample); uses != nil {
		victims.ObserveUnlisted(pods, uses, now)
		rank.Order(rank.Memory, uses.Facts(pressure.MemoryAvailable, pods, a.options.Self), a.policy.Rules)
	}
}
