package agent

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/evictd/evictd/internal/cooldown"
	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/testing/measuretest"
	"github.com/evictd/evictd/pkg/evict"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/usage"
)

// bestEffortPolicy is hardPolicy with bypass of budgets.
func bestEffortPolicy() Policy {
	policy := hardPolicy()
	policy.BestEffort = true
	return policy
}

// keptNode is a node that is short of 50 MiB, and whose two pods have each a budget of
// its own name: that of the first of the ranking is the more violated one.
func keptNode() *fakeNode {
	n := newFakeNode(1000)
	n.run("alone", 500, 100)
	n.run("oneof3", 450, 100)
	n.budgets = map[string]evict.Budget{
		"shop/alone":  {Desired: 1, Healthy: 1},
		"shop/oneof3": {Desired: 3, Healthy: 3},
	}
	n.answer = n.keeps(nil)
	return n
}

// keeps answers evictions with the outcomes of the pods' names, or by the budget of that
// name, and takes deletes unless the name has an outcome of its own after "delete ".
func (n *fakeNode) keeps(outcomes map[string]evict.Outcome) func(evict.Request) evict.Result {
	return func(r evict.Request) evict.Result {
		name := r.Name
		if r.Delete {
			name = "delete " + name
		}
		switch outcome, given := outcomes[name]; {
		case given:
			return evict.Result{Outcome: outcome}
		case r.Delete:
			return evict.Result{Outcome: taken(r)}
		default:
			return evict.Result{Outcome: evict.BlockedByBudget, Budget: r.Name}
		}
	}
}

// requests returns the requests in order: the pod, and how it was to be evicted.
func (n *fakeNode) requests() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	all := make([]string, 0, len(n.evictions))
	for _, r := range n.evictions {
		how := "evict "
		if r.Delete {
			how = "delete "
		}
		all = append(all, how+r.Name)
	}
	return all
}

// unready changes a pod so that no budget counts it as healthy.
func unready(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse }

func TestBestEffort(t *testing.T) {
	t.Parallel()
	tried := []string{"evict alone", "evict oneof3"}
	for _, test := range []struct {
		name  string
		setUp func(n *fakeNode, policy *Policy)
		want  []string
		came  decide.BestEffort
	}{
		{
			"the least violated budget's pod is evicted, and no other", func(*fakeNode, *Policy) {},
			append(tried, "delete oneof3"), decide.BestEffortDeleted,
		},
		{
			"respect: no pod", func(_ *fakeNode, policy *Policy) { policy.BestEffort = false },
			tried, decide.BestEffortNone,
		},
		{
			"soft pressure: no pod", func(_ *fakeNode, policy *Policy) { policy.Thresholds[0].Hard = false },
			tried, decide.BestEffortNone,
		},
		{
			"equal shares: the first of the ranking", func(n *fakeNode, _ *Policy) {
				n.budgets["shop/alone"] = evict.Budget{Desired: 6, Healthy: 5} // two of six short, as one of three
			},
			append(tried, "delete alone"), decide.BestEffortDeleted,
		},
		{
			"by share and not by count", func(n *fakeNode, _ *Policy) {
				n.budgets["shop/alone"] = evict.Budget{Desired: 100, Healthy: 90} // eleven short
			},
			append(tried, "delete alone"), decide.BestEffortDeleted,
		},
		{
			"a budget that wants none is not violated", func(n *fakeNode, _ *Policy) {
				n.budgets["shop/alone"] = evict.Budget{}
			},
			append(tried, "delete alone"), decide.BestEffortDeleted,
		},
		{
			"a pod that is not ready takes nothing from its budget", func(n *fakeNode, _ *Policy) {
				n.budgets["shop/alone"] = evict.Budget{Desired: 4, Healthy: 3} // a quarter with it and without
				n.changed("alone", unready)
			},
			append(tried, "delete alone"), decide.BestEffortDeleted,
		},
		{
			"a status that is behind counts as a budget's refusal", func(n *fakeNode, _ *Policy) {
				n.answer = func(r evict.Request) evict.Result {
					if r.Delete {
						return evict.Result{Outcome: evict.Deleted}
					}
					return evict.Result{Outcome: evict.BudgetPending, Budget: r.Name, RetryAfter: 10 * time.Second}
				}
			},
			append(tried, "delete oneof3"), decide.BestEffortDeleted,
		},
		{
			"a pod that a webhook refused is never deleted", func(n *fakeNode, _ *Policy) {
				n.answer = n.keeps(map[string]evict.Outcome{"oneof3": evict.Denied})
			},
			append(tried, "delete alone"), decide.BestEffortDeleted,
		},
		{
			"nor a pod that two budgets select", func(n *fakeNode, _ *Policy) {
				n.answer = n.keeps(map[string]evict.Outcome{"oneof3": evict.Misconfigured})
			},
			append(tried, "delete alone"), decide.BestEffortDeleted,
		},
		{
			"no budget refused: no pod", func(n *fakeNode, _ *Policy) {
				n.answer = n.keeps(map[string]evict.Outcome{"alone": evict.Denied, "oneof3": evict.Misconfigured})
			},
			tried, decide.BestEffortNone,
		},
		{
			"one was accepted: no pod", func(n *fakeNode, _ *Policy) {
				n.answer = n.keeps(map[string]evict.Outcome{"oneof3": evict.Evicted})
			},
			tried, decide.BestEffortNone,
		},
		{
			"the API server is overloaded: no pod", func(n *fakeNode, _ *Policy) {
				n.answer = n.keeps(map[string]evict.Outcome{"oneof3": evict.Throttled})
			},
			tried, decide.BestEffortNone,
		},
		{
			"one has ended meanwhile: no pod in this decision", func(n *fakeNode, _ *Policy) {
				answer := n.keeps(map[string]evict.Outcome{"oneof3": evict.Gone})
				n.answer = func(r evict.Request) evict.Result {
					if r.Name == "oneof3" {
						delete(n.pods, r.UID)
						n.host += 450 * mebi // and nothing is gained
					}
					return answer(r)
				}
			},
			append(tried, "evict alone", "delete alone"), decide.BestEffortNone, // by the second decision
		},
		{
			"a budget cannot be read: no pod", func(n *fakeNode, _ *Policy) { n.unbudgeted = errPlanted() },
			tried, decide.BestEffortBudgetUnknown,
		},
		{
			"a budget that does not exist blocks no pod: its pod is evicted again", func(n *fakeNode, _ *Policy) {
				delete(n.budgets, "shop/alone")
				answer := n.answer
				n.answer = func(r evict.Request) evict.Result {
					if len(n.evictions) == 3 {
						return evict.Result{Outcome: evict.Evicted}
					}
					return answer(r)
				}
			},
			append(tried, "evict alone"), decide.BestEffortNone,
		},
		{
			"one that is not there and refuses again keeps the others from nothing", func(n *fakeNode, _ *Policy) {
				delete(n.budgets, "shop/alone")
			},
			append(tried, "evict alone", "delete oneof3"), decide.BestEffortDeleted,
		},
		{
			"the refusal names no budget: no pod", func(n *fakeNode, _ *Policy) {
				n.answer = n.keeps(map[string]evict.Outcome{"alone": evict.BlockedByBudget})
			},
			tried, decide.BestEffortBudgetUnknown,
		},
		{
			"all pods that budgets block would not suffice: no pod", func(n *fakeNode, _ *Policy) {
				n.pods["uid-oneof3"].memory, n.pods["uid-alone"].memory, n.host = 45*mebi, 40*mebi, 865*mebi // 50 are missing
				n.pods["uid-alone"].api.Spec.Containers[0].Resources.Requests = nil
				n.pods["uid-oneof3"].api.Spec.Containers[0].Resources.Requests = nil
			},
			[]string{"evict oneof3"},
			decide.BestEffortInsufficientReclaim,
		},
		{
			"the delete is denied", func(n *fakeNode, _ *Policy) {
				n.answer = n.keeps(map[string]evict.Outcome{"delete oneof3": evict.Denied})
			},
			append(tried, "delete oneof3"), decide.BestEffortRefused,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n, policy := keptNode(), bestEffortPolicy()
				n.ends = time.Hour
				test.setUp(n, &policy)
				watch(t, n, policy, 900*time.Millisecond) // an overloaded server: the next try is after 1 s
				if diff := cmp.Diff(test.want, n.requests()); diff != "" {
					t.Errorf("requests (-want +got):\n%s", diff)
				}
				if d := n.decisions[0]; d.BestEffort != test.came {
					t.Errorf("what came of it: %q, want %q: %+v", d.BestEffort, test.came, d)
				}
			})
		})
	}
}

// TestBestEffortForADisk: 50 of a disk are missing. The pod that a webhook denies would have freed
// enough; a pod that a budget blocks bypasses it only for what is needed.
func TestBestEffortForADisk(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name     string
		kept     int64
		measured bool // of a third pod
		want     []string
		came     decide.BestEffort
	}{
		{"less than is missing", 49, true, []string{}, decide.BestEffortNone},
		{"as much", 50, true, []string{"delete kept"}, decide.BestEffortDeleted},
		{"less than is missing while not all is known", 49, false, []string{}, decide.BestEffortNone},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n, policy := newFakeNode(1000), diskPolicy(pressure.NodeFSAvailable)
				policy.BestEffort = true
				disk := &fakeDisk{node: n, measured: map[string]usage.DiskUse{
					"uid-denied": measuretest.DiskUse(100, 1, 1, 1), "uid-kept": measuretest.DiskUse(test.kept, 1, 1, 1),
				}}
				for _, name := range []string{"denied", "kept", "third"} {
					n.run(name, 1, 0)
				}
				if test.measured {
					disk.measured["uid-third"] = measuretest.DiskUse(0, 1, 1, 1)
				}
				n.budgets = map[string]evict.Budget{"shop/kept": {Desired: 1, Healthy: 1}}
				n.answer, n.ends = n.keeps(map[string]evict.Outcome{"denied": evict.Denied, "third": evict.Denied}), time.Hour
				runDiskBy(t, n, disk, policy, 5*time.Second)
				deletes := slices.DeleteFunc(n.requests(), func(r string) bool { return !strings.HasPrefix(r, "delete ") })
				if diff := cmp.Diff(test.want, deletes); diff != "" {
					t.Errorf("deletes (-want +got):\n%s", diff)
				}
				if !slices.ContainsFunc(n.decisions, func(d decide.Decision) bool { return d.BestEffort == test.came }) {
					t.Errorf("what came of it: want %q: %+v", test.came, n.decisions)
				}
			})
		})
	}
}

// The delete is a victim like any other: its record, its booking and its limits.
func TestBestEffortBooksItsVictim(t *testing.T) {
	t.Parallel()
	for _, dryRun := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			n, policy := keptNode(), bestEffortPolicy()
			n.ends = 20 * time.Second
			policy.DryRun, policy.HardGrace, policy.Limits = dryRun, 7, cooldown.Limits{PerMinute: 1}
			watch(t, n, policy, 15*time.Second)
			if diff := cmp.Diff([]string{"evict alone", "evict oneof3", "delete oneof3"}, n.requests()); diff != "" {
				t.Errorf("dry run %v: requests (-want +got):\n%s", dryRun, diff)
			}
			if r := n.evictions[2]; r.UID != "uid-oneof3" || r.GraceSeconds == nil || *r.GraceSeconds != 7 || r.DryRun != dryRun {
				t.Errorf("dry run %v: the delete %+v", dryRun, r)
			}
			d := n.decisions[0]
			victim := d.Victim()
			if d.Verb != decide.Acted || victim == nil || victim.Bypassed == nil || *victim.Bypassed != (evict.Budget{Name: "oneof3", Desired: 3, Healthy: 3}) {
				t.Errorf("dry run %v: the record %+v", dryRun, d)
			}
			if diff := cmp.Diff([]decide.Hold{decide.HoldLimitReached}, n.holds()); diff != "" {
				t.Errorf("dry run %v: it does not count against the limit (-want +got):\n%s", dryRun, diff)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		n := keptNode()
		n.ends = 20 * time.Second
		watch(t, n, bestEffortPolicy(), 15*time.Second)
		if diff := cmp.Diff([]decide.Hold{decide.HoldReclaimInProgress}, n.holds()); diff != "" {
			t.Errorf("it is not relied on (-want +got):\n%s", diff)
		}
	})
}

// TestBestEffortTakesPodsInBackOff: a pod that a budget refused under soft pressure does not have to
// wait for the end of its back-off when hard pressure begins. Only the pod that is to be deleted is
// tried again before that.
func TestBestEffortTakesPodsInBackOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n, policy := keptNode(), bestEffortPolicy()
		soft := pressure.Threshold{Signal: pressure.MemoryAvailable, Quantity: pressure.Fraction(0.2)}
		policy.Thresholds = append(policy.Thresholds, soft)
		n.pods["uid-oneof3"].memory = 350 * mebi // 150 left
		n.after(5*time.Second, func() { n.host = 100 * mebi })
		watch(t, n, policy, 8*time.Second)
		if diff := cmp.Diff([]string{"evict alone", "evict oneof3", "evict oneof3", "delete oneof3"}, n.requests()); diff != "" {
			t.Errorf("requests (-want +got):\n%s", diff)
		}
	})
}

// TestBestEffortChecksBudgetsOnceMore: an old refusal is not relied on: a pod whose budget has room
// again is evicted, and no budget is bypassed.
func TestBestEffortChecksBudgetsOnceMore(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		changes func(n *fakeNode)
		now     evict.Outcome
		want    []string // after the refusals under soft pressure
	}{
		{
			"its budget has room", func(n *fakeNode) { n.budgets["shop/oneof3"] = evict.Budget{Desired: 3, Healthy: 4} },
			evict.Evicted,
			[]string{"evict oneof3"},
		},
		{
			"its budget was deleted", func(n *fakeNode) { delete(n.budgets, "shop/oneof3") },
			evict.Evicted,
			[]string{"evict oneof3"},
		},
		{
			"a webhook denies it by now: the other one, as if alone", func(*fakeNode) {},
			evict.Denied,
			[]string{"evict oneof3", "evict alone", "delete alone"},
		},
		{
			"it has gone: the other one, by a new decision", func(*fakeNode) {},
			evict.Gone,
			[]string{"evict oneof3", "evict alone", "delete alone"},
		},
		{
			"the API server is overloaded: no pod", func(*fakeNode) {},
			evict.Throttled,
			[]string{"evict oneof3"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n, policy := keptNode(), bestEffortPolicy()
				soft := pressure.Threshold{Signal: pressure.MemoryAvailable, Quantity: pressure.Fraction(0.2)}
				policy.Thresholds = append(policy.Thresholds, soft)
				n.host, n.ends = -60*mebi, time.Hour
				n.after(5*time.Second, func() {
					test.changes(n)
					answer := n.keeps(map[string]evict.Outcome{"oneof3": test.now})
					n.host, n.answer = 0, func(r evict.Request) evict.Result {
						if r.Name == "oneof3" && !r.Delete && test.now == evict.Gone {
							delete(n.pods, r.UID)
							n.host += 450 * mebi // and nothing is gained
						}
						return answer(r)
					}
				})
				watch(t, n, policy, 5*time.Second+900*time.Millisecond)
				want := append([]string{"evict alone", "evict oneof3"}, test.want...)
				if diff := cmp.Diff(want, n.requests()); diff != "" {
					t.Errorf("requests (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// TestBestEffortWhileAnotherOwnerIsLeftAlone: a pod that is not evicted for other reasons does not
// prevent the bypass for the others.
func TestBestEffortWhileAnotherOwnerIsLeftAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n, policy := keptNode(), bestEffortPolicy()
		n.run("left", 300, 100)
		n.host, policy.Limits = -300*mebi, cooldown.Limits{PerOwnerPerHour: 1}
		a := newAgent(t, n, policy)
		a.cooldown.Accept("rs-left", false, time.Now())
		runFor(t, a, time.Second)
		if diff := cmp.Diff([]string{"evict alone", "evict oneof3", "delete oneof3"}, n.requests()); diff != "" {
			t.Errorf("requests (-want +got):\n%s", diff)
		}
	})
}

// TestBestEffortPassesOverOtherRefusals: a pod in back-off for another reason does not keep the
// others from being considered.
func TestBestEffortPassesOverOtherRefusals(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n, policy := keptNode(), bestEffortPolicy()
		n.answer = n.keeps(map[string]evict.Outcome{"delete oneof3": evict.Denied})
		watch(t, n, policy, 10*time.Second+2*time.Second)
		want := []string{"evict alone", "evict oneof3", "delete oneof3", "evict alone", "delete alone"}
		if diff := cmp.Diff(want, n.requests()); diff != "" {
			t.Errorf("requests (-want +got):\n%s", diff)
		}
	})
}

// TestBestEffortWithoutTheRight: a missing right is reported at each attempt. It does not count
// against the pod, which is tried as before.
func TestBestEffortWithoutTheRight(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := keptNode()
		n.answer = func(r evict.Request) evict.Result {
			if r.Delete {
				return evict.Result{Outcome: evict.Denied, NoRight: true}
			}
			return evict.Result{Outcome: evict.BlockedByBudget, Budget: r.Name}
		}
		watch(t, n, bestEffortPolicy(), 10*time.Second+2*time.Second)
		want := []string{"evict alone", "evict oneof3", "delete oneof3", "evict alone", "evict oneof3", "delete oneof3"}
		if diff := cmp.Diff(want, n.requests()); diff != "" {
			t.Errorf("requests (-want +got):\n%s", diff)
		}
	})
}

// TestBestEffortWithoutABudget: unknown is never zero: unless all budgets are known, the one that
// is violated least is not. The API server does not get a hundred requests a second because of
// that.
func TestBestEffortWithoutABudget(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n, policy := keptNode(), bestEffortPolicy()
		n.unbudgeted = errPlanted()
		policy.Thresholds[0].Hard = true
		watch(t, n, policy, 35*time.Second)
		if slices.Contains(n.requests(), "delete oneof3") || slices.Contains(n.requests(), "delete alone") {
			t.Errorf("a pod was deleted: %v", n.requests())
		}
		if reads := len(n.budgetReads); reads < 3 || reads > 5 {
			t.Errorf("%d budgets read in 35 s, want one every 10 s", reads)
		}
		if d := n.decisions[0]; d.Verb != decide.Refused || !strings.Contains(d.Detail, "no pod bypasses a PDB: planted") {
			t.Errorf("the record does not say why: %+v", d)
		}
		if !slices.Contains(n.holds(), decide.HoldBudgetUnknown) {
			t.Errorf("holds %v, want BudgetUnknown where no pod was tried", n.holds())
		}
	})
}

// TestRecoveryMeanwhileKeepsTheBudget: the node changes while budgets are read.
func TestRecoveryMeanwhileKeepsTheBudget(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := keptNode()
		n.slow = 5 * time.Second
		n.after(7*time.Second, func() { n.capacity *= 2 }) // while the second answer is awaited
		watch(t, n, bestEffortPolicy(), 20*time.Second)
		if diff := cmp.Diff([]string{"evict alone", "evict oneof3"}, n.requests()); diff != "" {
			t.Errorf("requests (-want +got):\n%s", diff)
		}
		if d := n.last(t); !strings.Contains(d.Detail, "recovered meanwhile") {
			t.Errorf("the record does not say why no pod was evicted: %+v", d)
		}
	})
}

func TestDeleteInDoubtIsResolved(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := keptNode()
		n.ends, n.behind = time.Hour, true // the watch does not tell either
		n.answer = func(r evict.Request) evict.Result {
			if r.Delete {
				n.terminate(r.UID) // it was carried out
				return lost(r)
			}
			return evict.Result{Outcome: evict.BlockedByBudget, Budget: r.Name}
		}
		watch(t, n, bestEffortPolicy(), 10*time.Second+3*time.Second)
		found := slices.ContainsFunc(n.decisions, func(d decide.Decision) bool {
			return d.Victim() != nil && d.Victim().Result.Outcome == evict.Deleted && d.BestEffort == decide.BestEffortDeleted
		})
		if !found || len(n.looks) != 1 || n.looks[0] != "oneof3" {
			t.Errorf("looked into %v; that it was deleted is not on record: %+v", n.looks, n.decisions)
		}
	})
}

func TestOwnersLimitHoldsPastABudgetToo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n, policy := keptNode(), bestEffortPolicy()
		policy.Limits = cooldown.Limits{PerOwnerPerHour: 1}
		a := newAgent(t, n, policy)
		a.cooldown.Accept("rs-oneof3", false, time.Now())
		runFor(t, a, time.Second)
		if diff := cmp.Diff([]string{"evict alone", "delete alone"}, n.requests()); diff != "" {
			t.Errorf("requests (-want +got):\n%s", diff)
		}
	})
}
