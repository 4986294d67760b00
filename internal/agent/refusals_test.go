package agent

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/evictd/evictd/pkg/evict"
)

// crowd is the number of pods of slowCrowd: one request for each takes longer than the first wait
// of a back-off.
const crowd = 12

// slowCrowd is a node that is short of 50 MiB, whose pods are each refused after ten
// seconds; the last of the ranking is p00.
func slowCrowd(outcome evict.Outcome) *fakeNode {
	n := newFakeNode(10000)
	for i := range crowd {
		n.run(fmt.Sprintf("p%02d", i), int64(110+i), 10)
		n.host -= int64(110+i) * mebi
	}
	n.host += n.capacity - 950*mebi
	n.slow = 10 * time.Second
	n.answer = func(r evict.Request) evict.Result {
		switch {
		case r.Name == "culprit":
			return evict.Result{Outcome: evict.Evicted}
		case r.Delete:
			return evict.Result{Outcome: taken(r)}
		default:
			return evict.Result{Outcome: outcome, Budget: r.Name}
		}
	}
	return n
}

// unhurried is a policy with fewer ticks, because these plans take minutes.
func unhurried(policy Policy) Policy {
	policy.Pacing.Min = 100 * time.Millisecond
	return policy
}

// TestWalkDoesNotGoOnByAnOldRanking: a pod that begins to leak while a plan is carried out is
// evicted by the next ranking, and not only after all pods of the old one.
func TestWalkDoesNotGoOnByAnOldRanking(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := slowCrowd(evict.Denied)
		n.ends = time.Hour
		time.AfterFunc(25*time.Second, func() { n.run("culprit", 700, 10) })
		watch(t, n, unhurried(hardPolicy()), 42*time.Second)
		n.wantVictims(t, "p11", "p10", "p09", "culprit")
	})
}

// TestQuickWalkIsOneDecision: a plan that is carried out quickly is one decision.
func TestQuickWalkIsOneDecision(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := slowCrowd(evict.Denied)
		n.slow = 400 * time.Millisecond
		watch(t, n, unhurried(hardPolicy()), 8*time.Second)
		if len(n.decisions) == 0 || len(n.decisions[0].Attempts) != crowd {
			t.Errorf("the first of %d decisions does not try all", len(n.decisions))
		}
	})
}

// TestSlowRefusalsStarveNoPod: back-offs are shorter than a series of slow plans: no pod is tried
// twice before each pod was tried once; then all are tried again.
func TestSlowRefusalsStarveNoPod(t *testing.T) {
	t.Parallel()
	for _, outcome := range []evict.Outcome{evict.BlockedByBudget, evict.BudgetPending, evict.Denied} {
		t.Run(string(outcome), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n := slowCrowd(outcome)
				watch(t, n, unhurried(hardPolicy()), 4*time.Minute)
				victims := n.victims()
				if len(victims) <= crowd || len(slices.Compact(slices.Sorted(slices.Values(victims[:crowd])))) != crowd {
					t.Fatalf("not every pod was tried before one was tried again: %v", victims)
				}
				if victims[crowd] != "p11" {
					t.Errorf("the next round begins with %s, want the first of the ranking", victims[crowd])
				}
			})
		})
	}
}

// TestSlowRefusalsByBudgetsEndInADelete: with bestEffort a pod bypasses its budget once all
// candidates were refused, however long that took.
func TestSlowRefusalsByBudgetsEndInADelete(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := slowCrowd(evict.BlockedByBudget)
		n.ends = time.Hour
		n.budgets = map[string]evict.Budget{}
		for i := range crowd {
			n.budgets[fmt.Sprintf("shop/p%02d", i)] = evict.Budget{Desired: 1, Healthy: 1}
		}
		n.budgets["shop/p05"] = evict.Budget{Desired: 5, Healthy: 5}
		watch(t, n, unhurried(bestEffortPolicy()), 3*time.Minute)
		all := n.requests()
		if want := []string{"evict p00", "evict p05", "delete p05"}; len(all) != crowd+2 || !slices.Equal(all[crowd-1:], want) {
			t.Errorf("requests %v, want one for each pod and at the end %v", all, want)
		}
	})
}

// TestSlowRefusalsDeleteNoPodByAnOldRanking: a pod that arrives while the last candidate is tried
// is evicted before any budget is bypassed.
func TestSlowRefusalsDeleteNoPodByAnOldRanking(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := slowCrowd(evict.BlockedByBudget)
		n.ends, n.budgets = time.Hour, map[string]evict.Budget{}
		for i := range crowd {
			n.budgets[fmt.Sprintf("shop/p%02d", i)] = evict.Budget{Desired: 1, Healthy: 1}
		}
		n.budgets["shop/p00"] = evict.Budget{Desired: 5, Healthy: 5}
		n.run("culprit", 700, 10)
		culprit, answer := n.pods["uid-culprit"], n.answer
		delete(n.pods, "uid-culprit")
		n.answer = func(r evict.Request) evict.Result {
			if r.Name == "p00" {
				n.pods["uid-culprit"] = culprit
			}
			return answer(r)
		}
		watch(t, n, unhurried(bestEffortPolicy()), 140*time.Second)
		all := n.requests()
		if want := []string{"evict p00", "evict culprit"}; len(all) <= crowd || !slices.Equal(all[crowd-1:crowd+1], want) {
			t.Errorf("requests %v, want one for each pod and at the end %v", all, want)
		}
	})
}

// A round is of one pressure: the next one begins with the first of the ranking.
func TestRoundEndsWithItsPressure(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := slowCrowd(evict.BudgetPending)
		n.after(9*time.Second, func() { n.unsynced = true }) // so that the next decision holds
		n.after(15*time.Second, func() { n.host -= 1000 * mebi })
		n.after(20*time.Second, func() { n.unsynced = false })
		n.after(time.Minute, func() { n.host += 1000 * mebi })
		watch(t, n, unhurried(hardPolicy()), 72*time.Second)
		n.wantVictims(t, "p11", "p11")
	})
}

// After a victim the next decision begins with the first of the ranking.
func TestRoundEndsWithAVictim(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := slowCrowd(evict.BudgetPending)
		n.run("culprit", 110, 20) // the last but one
		n.pods["uid-p10"].memory = 110 * mebi
		n.after(25*time.Second, func() { n.pods["uid-culprit"].memory += 30 * mebi; n.host -= 30 * mebi })
		watch(t, n, unhurried(hardPolicy()), 55*time.Second)
		n.wantVictims(t, "p11", "p09", "p08", "culprit", "p11")
	})
}

// TestRoundEndsWhenNoCandidateIsLeft: the pods that were tried are tried again when no other candidate
// is left.
func TestRoundEndsWhenNoCandidateIsLeft(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := slowCrowd(evict.BudgetPending)
		n.after(9*time.Second, func() {
			for uid, pod := range n.pods {
				if uid != "uid-p11" {
					n.host += pod.memory
					delete(n.pods, uid)
				}
			}
		})
		watch(t, n, unhurried(hardPolicy()), 30*time.Second)
		n.wantVictims(t, "p11", "p11")
	})
}
