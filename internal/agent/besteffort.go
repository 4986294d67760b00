package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/wording"
	"github.com/evictd/evictd/pkg/evict"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
)

// Where budgets keep every pod that could go, the kubelet or the kernel takes one in the
// end, without asking anybody and without a grace period. `disruptionBudgets: bestEffort`
// lets evictd go past one budget before that, by a delete:
//
//   - under hard pressure alone, and only once every candidate was asked for, or backs off
//     from a budget's refusal, and none was accepted;
//   - the pod whose budget its end violates least, one a decision, and only if its budget
//     refused it in the same walk: what it said minutes ago may not be so any more;
//   - never a pod that something else than a budget refused;
//   - nobody while one of the budgets cannot be read: which is violated least is not known
//     then. One that is not there any more keeps nobody.
//
// A pod that is no candidate does not keep the others from that: one that a webhook denies,
// whose owner is held off, or whose owner has reached limits.perOwnerPerHour. The first may
// be denied for ever; the pods of the second come back to this node, so that their end
// helps nobody; the third are left alone for up to an hour because the configuration says
// so, and the kubelet and the kernel do not wait for that.

// bestEffortRest is how long nobody goes past a budget after that came to nothing. The
// budgets are read from the API server, and near a threshold there are a hundred ticks a
// second.
const bestEffortRest = 10 * time.Second

// mayGoPastBudgets reports whether a decision about the pressure may go past a budget.
func (a *Agent) mayGoPastBudgets(p *pressure.Pressure) bool {
	return a.policy.BestEffort && p.Threshold.Hard && !p.SampleTime.Before(a.resting)
}

// noteRefusal remembers whether a budget refused the candidate.
func (p *plan) noteRefusal(c *candidate, r *evict.Result) {
	c.kept, c.budget, c.fresh = r.Outcome.OfBudget(), r.Budget, true
}

// keptByBudgets returns the candidates that a budget refused, in the order of the ranking.
func (p *plan) keptByBudgets() []*candidate {
	var kept []*candidate
	for i := range p.candidates {
		if c := &p.candidates[i]; c.kept {
			kept = append(kept, c)
		}
	}
	return kept
}

// mayGoPast reports whether somebody may go past a budget: who only waits for a slot was
// not refused.
func (p *plan) mayGoPast() bool {
	return p.bestEffort && len(p.keptByBudgets()) > 0 &&
		p.slots.held() == "" && !p.decision.Ranking.Protects(rank.ProtectedSlotless)
}

// goPastBudget ends a walk in which nobody was accepted: it deletes one pod, or says why
// nobody goes.
func (a *Agent) goPastBudget(ctx context.Context, p *plan, policy *Policy) report {
	d, read := p.decision, map[string]evict.Budget{}
	if !p.mayGoPast() {
		return report{decision: d}
	}
	if last, over := endsEarly(ctx, p); over {
		return last // when it is old, somebody may have come who could be evicted
	}
	for p.mayGoPast() {
		kept := p.keptByBudgets()
		if detail := p.useless(kept); detail != "" {
			d.BestEffort, d.Detail = decide.BestEffortUseless, detail
			return report{decision: d, hold: decide.HoldUseless}
		}
		victim, err := a.leastViolated(ctx, kept, read)
		if err != nil {
			d.BestEffort, d.Detail = decide.BestEffortUnknown, "nobody goes past a budget: "+err.Error()
			return report{decision: d, hold: decide.HoldBudgetUnknown}
		}
		budget, there := read[victim.budgetKey()]
		if there && victim.fresh {
			return a.deletePast(ctx, p, policy, victim, &budget)
		}
		if last, over := a.askAgain(ctx, p, policy, victim); over {
			return last
		}
		delete(read, victim.budgetKey()) // time has passed
	}
	return report{decision: d}
}

// askAgain asks for a candidate by the Eviction API once more: its budget may have room by
// now, and a delete would not be charged to it, so that a drain elsewhere would take one
// pod too many. One that was asked for once more already, and is refused by a budget that
// is not there, is left to itself. It reports whether that ends the walk.
func (a *Agent) askAgain(ctx context.Context, p *plan, policy *Policy, c *candidate) (last report, over bool) {
	if c.again {
		c.kept = false
		return report{}, false
	}
	c.again, c.fresh = true, false
	last, over = a.askFor(ctx, p, policy, c)
	if !over && !c.fresh {
		return report{decision: p.decision}, true // it has no slot
	}
	return last, over
}

// deletePast deletes a candidate that its budget has refused a moment ago.
func (a *Agent) deletePast(ctx context.Context, p *plan, policy *Policy, victim *candidate, budget *evict.Budget) report {
	d := p.decision
	if d.Detail = whyStop(ctx, p.interrupt); d.Detail != "" {
		return report{decision: d}
	}
	attempt := decide.Attempt{Entry: victim.entry, GraceSeconds: policy.grace(d, victim.entry.Pod), Past: budget}
	if !p.slots.take(ctx, p.interrupt, &attempt) {
		return report{decision: d}
	}
	a.saveBefore(d, &attempt, victim.expected)
	step := a.send(ctx, p, &attempt)
	p.slots.answered(&attempt)
	d.BestEffort = decide.BestEffortRefused
	if step == evict.Done {
		d.BestEffort = decide.BestEffortDeleted
	}
	return reportOf(d, &attempt, victim, step)
}

// useless says that all whom budgets keep could not return what is needed; "" when they
// could, or nobody knows. A pod that something else refused may have been counted on
// before.
func (p *plan) useless(kept []*candidate) string {
	signal := p.decision.Pressure.Threshold.Signal
	releases := make([]decide.Reclaim, 0, len(kept))
	for _, c := range kept {
		releases = append(releases, decide.ReclaimOf(signal, c.expected))
	}
	if decide.Suffice(p.needed, releases) {
		return ""
	}
	return fmt.Sprintf("nobody goes past a budget: all %d candidates that budgets keep could return %s of the %s that are needed",
		len(kept), wording.Amount(signal, decide.Total(releases)), wording.Amount(signal, p.needed))
}

// leastViolated returns the candidate whose budget its end violates least, the first of
// them in the ranking; before all one whose budget is not there any more, which keeps
// nobody. It reads each budget once.
func (a *Agent) leastViolated(ctx context.Context, kept []*candidate, read map[string]evict.Budget) (*candidate, error) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	var victim *candidate
	var least violation
	for _, c := range kept {
		budget, err := a.budgetOf(ctx, c, read)
		if errors.Is(err, evict.ErrNoBudget) {
			return c, nil
		}
		if err != nil {
			return nil, err
		}
		if v := violationOf(budget, c.entry.Pod.Ready); victim == nil || v.less(least) {
			victim, least = c, v
		}
	}
	return victim, nil
}

// budgetKey names the budget that refused a candidate.
func (c *candidate) budgetKey() string { return c.entry.Pod.Namespace + "/" + c.budget }

// budgetOf returns the budget that refused a candidate, by the name in the refusal, and
// keeps it in read.
func (a *Agent) budgetOf(ctx context.Context, c *candidate, read map[string]evict.Budget) (evict.Budget, error) {
	pod := c.entry.Pod
	if c.budget == "" {
		return evict.Budget{}, fmt.Errorf("the API server did not name the PodDisruptionBudget that keeps %s", pod.Key())
	}
	if budget, known := read[c.budgetKey()]; known {
		return budget, nil
	}
	budget, err := a.options.Evictor.Budget(ctx, pod.Namespace, c.budget)
	if err == nil {
		read[c.budgetKey()] = budget
	}
	return budget, err
}

// violation is how far a budget would be violated: by how many pods it would be short of
// how many it wants.
type violation struct{ short, desired int64 }

// violationOf returns it for the time after one pod's end. A pod that is not ready does
// not count as healthy before.
func violationOf(b evict.Budget, ready bool) violation {
	left := b.Healthy
	if ready {
		left = max(0, left-1) // the status may be older than the pod
	}
	return violation{short: max(0, b.Desired-left), desired: max(1, b.Desired)}
}

// less compares shares and not counts: one pod of a hundred is a hundredth of what the
// budget promises, and the only pod is all of it. A count would take the one as readily
// as the other.
func (v violation) less(other violation) bool { return v.short*other.desired < other.short*v.desired }

// noteBestEffort lets the API server rest after going past a budget came to nothing.
func (a *Agent) noteBestEffort(came decide.BestEffort, now time.Time) {
	if came != decide.BestEffortNone && came != decide.BestEffortDeleted {
		a.resting = now.Add(bestEffortRest)
	}
}
