package execute

import (
	"context"
	"fmt"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/pkg/evict"
)

// bypassPDB ends a run in which no request was accepted (docs/adr/0013): it deletes one pod and bypasses
// its budget, or says why none is. An eviction of the pod is refused in this run before: its budget may have
// room by now, and a delete is not charged to the budget, so that a drain elsewhere would take one pod too many.
func (r *run) bypassPDB(ctx context.Context) {
	blocked, ends := r.candidates(0, true)
	if len(blocked) == 0 || r.endsEarly(ctx) { // when it is stale, there may be a pod now that could be evicted
		return
	}
	for ; len(blocked) > 0; blocked, ends = r.candidates(0, true) {
		// A pod that something else refused may have been counted on before.
		if signal := r.plan.Decision.Pressure.Threshold.Signal; !decide.Suffice(signal, r.plan.Required, ends) {
			r.unbypassed(decide.HoldInsufficientReclaim, decide.Insufficient(signal, ends, " that PDBs block", r.plan.Required))
			return
		}
		victim, budget, err := r.leastViolated(ctx, blocked)
		if err != nil {
			r.unbypassed(decide.HoldBudgetUnknown, err.Error())
			return
		}
		switch sent := r.requests(victim); {
		case sent > 0 && budget.Name != "":
			if victim.Bypassed = &budget; !r.stops(ctx) {
				r.send(ctx, &victim.Attempt, victim.Expected)
			}
			return
		case sent > 1: // refused by a budget that does not exist
			victim.BlockedByPDB = false
		case r.evict(ctx, victim):
			return
		}
	}
}

// unbypassed says why no pod bypasses its budget.
func (r *run) unbypassed(hold decide.Hold, why string) {
	r.report.Hold, r.report.Detail = hold, "no pod bypasses a PDB: "+why
}

// leastViolated returns the candidate whose end violates its budget least, the first of them in the
// ranking, with the budget. One that does not exist any more is not violated. It reads each budget once.
func (r *run) leastViolated(ctx context.Context, blocked []*decide.Candidate) (victim *decide.Candidate, its evict.Budget, err error) {
	ctx, cancel := context.WithTimeout(ctx, evict.LookTimeout)
	defer cancel()
	least, read := 0.0, map[string]evict.Budget{}
	for _, c := range blocked {
		pod := c.Entry.Pod
		if c.PDB == "" {
			return nil, its, fmt.Errorf("the API server did not name the PodDisruptionBudget that keeps %s", pod.Key())
		}
		budget, known := read[pod.Namespace+"/"+c.PDB]
		if !known {
			if budget, err = r.options.Evictor.Budget(ctx, pod.Namespace, c.PDB); err != nil {
				return nil, its, err
			}
			read[pod.Namespace+"/"+c.PDB] = budget
		}
		if budget.Name == "" { // nothing is to be bypassed for this one
			return c, budget, nil
		}
		if v := violation(&budget, pod.Ready); victim == nil || v < least {
			victim, its, least = c, budget, v
		}
	}
	return victim, its, nil
}

// violation returns how far a budget would be violated after one pod's end: the share of the pods it
// wants that would be missing. It is no count: one pod of a hundred is a hundredth of what the budget
// promises, and the only pod is all of it. A pod that is not ready does not count as healthy before.
func violation(b *evict.Budget, ready bool) float64 {
	left := b.Healthy
	if ready {
		left = max(0, left-1) // the status may be older than the pod
	}
	return float64(max(0, b.Desired-left)) / float64(max(1, b.Desired))
}
