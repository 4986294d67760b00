package agent

import (
	"github.com/evictd/evictd/internal/taint"
	"github.com/evictd/evictd/pkg/pressure"
)

// wantTaints says which taints the node should carry.
func (a *Agent) wantTaints(verdict *pressure.Verdict) {
	if a.options.Taints == nil || verdict.Stale {
		return
	}
	var want taint.Wanted
	if a.policy.TaintNode {
		want = taint.WantedBy(verdict, verdict.Time.Sub(a.watched), a.policy.Transition, a.policy.DryRun)
	}
	a.options.Taints.Want(want)
}
