package agent

import (
	"github.com/evictd/evictd/internal/taint"
	"github.com/evictd/evictd/pkg/pressure"
)

// wantTaints says which taints the node should carry: those of the signals that count as
// under pressure. Until the node has been watched for a transition period, what an
// earlier process or policy has set stays: that it is calm is not known before.
func (a *Agent) wantTaints(verdict *pressure.Verdict) {
	if a.options.Taints == nil || verdict.Stale {
		return
	}
	var want taint.Wanted
	if a.policy.TaintNode {
		want = taint.Wanted{
			Pressures: under(verdict),
			Keep:      verdict.Time.Sub(a.watched) < a.policy.Transition,
			DryRun:    a.policy.DryRun,
		}
	}
	a.options.Taints.Want(want)
}

// under returns the pressures that a verdict reports.
func under(verdict *pressure.Verdict) taint.Set {
	var set taint.Set
	for signal, is := range verdict.Under {
		if is {
			set |= taint.Of(pressure.Signal(signal))
		}
	}
	return set
}
