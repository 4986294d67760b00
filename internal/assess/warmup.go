package assess

import (
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
)

// WarmUp runs an assessment up to the ranking and discards the result. Otherwise the first decision
// of a process, which may come after a month, would open three files for each pod and run code that
// is not in memory, just when the node has none left. An error in reading the pods would also be
// noticed only then. It goes on under pressure: a disk's may last for days, and its decisions read no
// cgroups.
func (a *Assessor) WarmUp(sample *pressure.Sample) {
	now := sample.Time
	if !a.options.Pods.Synced() || !a.options.Measurer.WarmUpDue(now) {
		return
	}
	pods := a.options.Pods.List()
	if uses := a.options.Measurer.WarmUp(pods, now); uses != nil {
		rank.Order(rank.Memory, uses.Facts(pressure.MemoryAvailable, pods, a.options.Self), a.policy.Rules)
	}
}
