package agent

import (
	"fmt"
	"maps"
	"time"

	"github.com/evictd/evictd/internal/cooldown"
	"github.com/evictd/evictd/pkg/evict"
	"github.com/evictd/evictd/pkg/rank"
)

// An exhausted budget refuses all its ready pods. So one of them asks for all in a walk, and
// the others are spared: thirty requests would bring thirty times the same answer. Whose
// answer it is, is known without a right to read budgets:
//
//   - a budget selects pods of its namespace by their labels and nothing else, so two pods
//     with the same labels have the same budgets;
//   - the budget has named itself when it refused the pod before.
//
// That two pods have the same controller says less: an operator labels one of them as the
// primary, and its budget selects that one alone. A pod that is not ready is asked for
// itself: unhealthyPodEvictionPolicy may let it go.

// spareAlike spares those not asked for yet whom the budget that has just refused the
// candidate would refuse too.
func (p *plan) spareAlike(refused *candidate, r *evict.Result) {
	pod, spared := refused.entry.Pod, 0
	if !r.Outcome.OfBudget() || r.Budget == "" || !pod.Ready {
		return
	}
	for i := range p.candidates {
		c := &p.candidates[i]
		same := maps.Equal(c.entry.Pod.Labels, pod.Labels)
		if !c.mayShare(pod.Namespace) || !same && c.restsWith != r.Budget {
			continue
		}
		c.kept, c.budget = true, r.Budget
		if same {
			c.spared = r
		}
		spared++
	}
	if spared > 0 {
		p.decision.Notes = append(p.decision.Notes, fmt.Sprintf(
			"%d more that PodDisruptionBudget %s/%s keeps were not asked for", spared, pod.Namespace, r.Budget))
	}
}

// mayShare reports whether a budget of the namespace that has refused another may be the
// candidate's, and nobody has asked for it yet.
func (c *candidate) mayShare(namespace string) bool {
	return !c.fresh && !c.again && !c.kept && c.entry.Pod.Ready && c.entry.Pod.Namespace == namespace
}

// noteSpared lets those rest whose refusal was another's. Whom the budget had refused itself
// rests with it as it is: that does not prove once more that the budget selects it.
func (a *Agent) noteSpared(p *plan, now time.Time) {
	if p == nil {
		return
	}
	for i := range p.candidates {
		if c := &p.candidates[i]; c.spared != nil {
			a.backoff.Note(refusedOf(c.entry.Pod), *c.spared, now)
		}
	}
}

// refusedOf returns what the back-off needs to know of a pod.
func refusedOf(pod *rank.Pod) cooldown.Pod {
	return cooldown.Pod{UID: pod.UID, Namespace: pod.Namespace, Ready: pod.Ready}
}

// lastAnswer says why a pod backs off. A budget's answer may have been about another of its
// pods.
func (a *Agent) lastAnswer(pod *rank.Pod, last evict.Outcome) string {
	if budget := a.backoff.Budget(pod.UID); budget != "" {
		return fmt.Sprintf("the last answer of PodDisruptionBudget %s was %s", budget, last)
	}
	return "the last answer was " + string(last)
}
