package execute

import (
	"context"
	"errors"
	"fmt"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/pkg/evict"
	"github.com/evictd/evictd/pkg/pressure"
)

// blockedByPDB returns the candidates that a budget refused, in the order of the ranking, where one may be
// deleted despite its budget.
func (r *run) blockedByPDB() []*candidate {
	var blocked []*candidate
	for i := range r.candidates {
		if c := &r.candidates[i]; c.BlockedByPDB && r.plan.BypassPDB {
			blocked = append(blocked, c)
		}
	}
	return blocked
}

// bypassPDB ends a run in which no request was accepted (docs/adr/0013): it deletes one pod and bypasses
// its budget, or says why none is. An eviction of the pod is refused in this run before: its budget may have
// room by now, and a delete is not charged to the budget, so that a drain elsewhere would take one pod too many.
func (r *run) bypassPDB(ctx context.Context) {
	if len(r.blockedByPDB()) == 0 || r.endsEarly(ctx) { // when it is stale, there may be a pod now that could be evicted
		return
	}
	for blocked := r.blockedByPDB(); len(blocked) > 0; blocked = r.blockedByPDB() {
		if r.insufficient(blocked) {
			return
		}
		victim, err := r.leastViolated(ctx, blocked)
		if err != nil {
			r.report.Hold, r.report.Detail = decide.HoldBudgetUnknown, "no pod bypasses a PDB: "+err.Error()
			return
		}
		switch budget, there := r.read[victim.budgetKey()]; {
		case there && victim.requests > 0:
			r.deletePast(ctx, victim, &budget)
			return
		case victim.requests > 1: // refused by a budget that does not exist
			victim.BlockedByPDB = false
		case r.evict(ctx, victim):
			return
		}
		delete(r.read, victim.budgetKey()) // time has passed
	}
}

// deletePast deletes a candidate that its budget has refused a moment ago.
func (r *run) deletePast(ctx context.Context, victim *candidate, budget *evict.Budget) {
	attempt := decide.Attempt{Entry: victim.Entry, GraceSeconds: victim.GraceSeconds, Bypassed: budget}
	if !r.stops(ctx) {
		r.send(ctx, &attempt, victim.Expected)
	}
}

// insufficient reports whether all pods that budgets block could not free what is required, and says so.
// A pod that something else refused may have been counted on before.
func (r *run) insufficient(blocked []*candidate) bool {
	signal := r.plan.Decision.Pressure.Threshold.Signal
	ends := make([]pressure.Amounts, 0, len(blocked))
	for _, c := range blocked {
		ends = append(ends, c.Expected)
	}
	if decide.Suffice(signal, r.plan.Required, ends) {
		return false
	}
	r.report.Hold = decide.HoldInsufficientReclaim
	r.report.Detail = "no pod bypasses a PDB: " + decide.Insufficient(signal, ends, " that PDBs block", r.plan.Required)
	return true
}

// leastViolated returns the candidate whose end violates its budget least, the first of them in the
// ranking. A candidate whose budget does not exist any more comes first, because that blocks no
// pod. It reads each budget once.
func (r *run) leastViolated(ctx context.Context, blocked []*candidate) (*candidate, error) {
	ctx, cancel := context.WithTimeout(ctx, decide.LookTimeout)
	defer cancel()
	var victim *candidate
	least := 0.0
	for _, c := range blocked {
		budget, err := r.budgetOf(ctx, c)
		if errors.Is(err, evict.ErrNoBudget) {
			return c, nil
		}
		if err != nil {
			return nil, err
		}
		if v := violation(&budget, c.Entry.Pod.Ready); victim == nil || v < least {
			victim, least = c, v
		}
	}
	return victim, nil
}

// budgetKey names the budget that refused a candidate.
func (c *candidate) budgetKey() string { return c.Entry.Pod.Namespace + "/" + c.PDB }

// budgetOf returns the budget that refused a candidate, by the name in the refusal, and keeps it.
func (r *run) budgetOf(ctx context.Context, c *candidate) (evict.Budget, error) {
	pod := c.Entry.Pod
	if c.PDB == "" {
		return evict.Budget{}, fmt.Errorf("the API server did not name the PodDisruptionBudget that keeps %s", pod.Key())
	}
	if budget, known := r.read[c.budgetKey()]; known {
		return budget, nil
	}
	budget, err := r.options.Evictor.Budget(ctx, pod.Namespace, c.PDB)
	if err == nil {
		r.read[c.budgetKey()] = budget
	}
	return budget, err
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
