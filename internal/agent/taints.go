package agent

import (
	"context"
	"strings"
	"time"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/taint"
	"github.com/evictd/evictd/pkg/pressure"
)

// taintTimeout bounds how long the first request of a walk waits for the node's taint.
const taintTimeout = time.Second

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

// taintFirst waits until the node carries its taint, so that nothing is placed here in a
// victim's stead. The taint is a help and no guard: whoever cannot be kept away comes back
// and is counted by the limits. So a failure stops neither a hard eviction nor a soft one,
// which would otherwise wait for a right that is missing until the pressure is hard.
func (a *Agent) taintFirst(ctx context.Context, d *decide.Decision, policy *Policy) {
	if a.options.Taints == nil || !policy.TaintNode {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, taintTimeout)
	defer cancel()
	keys := strings.Join(taint.Of(d.Pressure.Threshold.Signal).Keys(), ", ")
	switch err := a.options.Taints.Settled(ctx); {
	case err != nil:
		d.Notes = append(d.Notes, "the node may not carry "+keys+": "+err.Error())
	case d.DryRun:
		d.Notes = append(d.Notes, "dry run: evictd would taint the node with "+keys)
	}
}
