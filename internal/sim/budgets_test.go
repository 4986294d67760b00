package sim

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/evictd/evictd/internal/agent"
	"github.com/evictd/evictd/internal/cooldown"
	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/pkg/evict"
	"github.com/evictd/evictd/pkg/pressure"
)

// keptNode is a node that is short of 50 MiB, and whose two pods have each a budget of its own name: that of the
// first of the ranking is the more violated one. Budgets may be bypassed.
func (n *world) keptNode() {
	n.runs("alone 500/100", "oneof3 450/100")
	n.budgets = map[string]evict.Budget{
		"shop/alone":  {Desired: 1, Healthy: 1},
		"shop/oneof3": {Desired: 3, Healthy: 3},
	}
	n.policy.BestEffort = true
	n.keeps(nil)
}

// keeps has the API server give outcomes as answers, and refuse by the budget all evictions that have none.
func (n *world) keeps(outcomes map[string]evict.Outcome) {
	with := map[string]evict.Outcome{"": evict.BlockedByBudget}
	maps.Copy(with, outcomes)
	n.answers(with)
}

// goes ends a pod when its eviction is requested, and nothing is gained.
func (n *world) goes(name string) {
	answer := n.answer
	n.answer = func(r evict.Request) evict.Result {
		if pod := n.pod(name); r.Name == name && pod != nil && !r.Delete {
			delete(n.pods, r.UID)
			n.host += pod.memory
		}
		return answer(r)
	}
}

// requests returns the requests in order: the pod, and how it was to be evicted.
func (n *world) requests() (all []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, r := range n.evictions {
		how := "evict "
		if r.Delete {
			how = "delete "
		}
		all = append(all, how+r.Name)
	}
	return all
}

// sent fails the test unless these requests were sent.
func (n *world) sent(want ...string) {
	n.t.Helper()
	same(n.t, "requests", want, n.requests())
}

func TestBestEffort(t *testing.T) {
	type variant struct {
		setUp func(n *world)
		want  []string // after both were refused
		came  decide.BestEffort
	}
	budget := func(b evict.Budget) func(n *world) { return func(n *world) { n.budgets["shop/alone"] = b } }
	keeps := func(outcomes map[string]evict.Outcome) func(n *world) {
		return func(n *world) { n.keeps(outcomes) }
	}
	alone, oneof3 := []string{"delete alone"}, []string{"delete oneof3"}
	stories(t, map[string]variant{
		"the least violated budget's pod is evicted, and no other": {func(*world) {}, oneof3, decide.BestEffortDeleted},
		"respect: no pod": {
			func(n *world) { n.policy.BestEffort = false }, nil, decide.BestEffortNone,
		},
		"soft pressure: no pod": {
			func(n *world) { n.policy.Thresholds[0].Hard = false }, nil, decide.BestEffortNone,
		},
		"equal shares: the first of the ranking": { // two of six short, as one of three
			budget(evict.Budget{Desired: 6, Healthy: 5}), alone, decide.BestEffortDeleted,
		},
		"by share and not by count": { // eleven short
			budget(evict.Budget{Desired: 100, Healthy: 90}), alone, decide.BestEffortDeleted,
		},
		"a budget that wants none is not violated": {budget(evict.Budget{}), alone, decide.BestEffortDeleted},
		"a pod that is not ready takes nothing from its budget": {func(n *world) {
			n.budgets["shop/alone"] = evict.Budget{Desired: 4, Healthy: 3} // a quarter with it and without
			n.changed("alone", unready)
		}, alone, decide.BestEffortDeleted},
		"a status that is behind counts as a budget's refusal": {func(n *world) {
			n.answer = func(r evict.Request) evict.Result {
				if r.Delete {
					return evict.Result{Outcome: evict.Deleted}
				}
				return evict.Result{Outcome: evict.BudgetPending, Budget: r.Name, RetryAfter: 10 * time.Second}
			}
		}, oneof3, decide.BestEffortDeleted},
		"a pod that a webhook refused is never deleted": {
			keeps(map[string]evict.Outcome{"oneof3": evict.Denied}), alone, decide.BestEffortDeleted,
		},
		"nor a pod that two budgets select": {
			keeps(map[string]evict.Outcome{"oneof3": evict.Misconfigured}), alone, decide.BestEffortDeleted,
		},
		"no budget refused: no pod": {
			keeps(map[string]evict.Outcome{"alone": evict.Denied, "oneof3": evict.Misconfigured}), nil, decide.BestEffortNone,
		},
		"one was accepted: no pod": {
			keeps(map[string]evict.Outcome{"oneof3": evict.Evicted}), nil, decide.BestEffortNone,
		},
		"the API server is overloaded: no pod": {
			keeps(map[string]evict.Outcome{"oneof3": evict.Throttled}), nil, decide.BestEffortNone,
		},
		"one has ended meanwhile: no pod in this decision": {func(n *world) {
			n.keeps(map[string]evict.Outcome{"oneof3": evict.Gone})
			n.goes("oneof3")
		}, []string{"evict alone", "delete alone"}, decide.BestEffortNone}, // by the second decision
		"a budget cannot be read: no pod": {
			func(n *world) { n.unbudgeted = errPlanted() }, nil, decide.BestEffortBudgetUnknown,
		},
		"a budget that does not exist blocks no pod: its pod is evicted again": {func(n *world) {
			delete(n.budgets, "shop/alone")
			answer := n.answer
			n.answer = func(r evict.Request) evict.Result {
				if len(n.evictions) == 3 {
					return evict.Result{Outcome: evict.Evicted}
				}
				return answer(r)
			}
		}, []string{"evict alone"}, decide.BestEffortNone},
		"one that is not there and refuses again keeps the others from nothing": {func(n *world) {
			delete(n.budgets, "shop/alone")
		}, []string{"evict alone", "delete oneof3"}, decide.BestEffortDeleted},
		"the refusal names no budget: no pod": {func(n *world) {
			answer := n.answer
			n.answer = func(r evict.Request) evict.Result {
				result := answer(r)
				if r.Name == "alone" {
					result.Budget = ""
				}
				return result
			}
		}, nil, decide.BestEffortBudgetUnknown},
		"the delete is denied": {
			keeps(map[string]evict.Outcome{"delete oneof3": evict.Denied}), oneof3, decide.BestEffortRefused,
		},
	}, func(n *world, _ string, c variant) {
		n.keptNode()
		n.ends = time.Hour
		c.setUp(n)
		n.watch(900 * time.Millisecond) // an overloaded server: the next try is after 1 s
		n.sent(append([]string{"evict alone", "evict oneof3"}, c.want...)...)
		if d := n.decisions[0]; d.BestEffort != c.came {
			n.t.Errorf("the bypass: %q, want %q: %+v", d.BestEffort, c.came, d)
		}
	})
}

// All pods that budgets block would not suffice for the 50 that are missing: no budget is bypassed.
func TestBestEffortThatWouldNotSuffice(t *testing.T) {
	story(t, func(n *world) {
		n.keptNode()
		n.host = 865 * Mebi
		for name, memory := range map[string]int64{"alone": 40, "oneof3": 45} {
			n.pod(name).memory = memory * Mebi
			n.pod(name).api.Spec.Containers[0].Resources.Requests = nil
		}
		n.watch(900 * time.Millisecond)
		n.sent("evict oneof3")
		if d := n.decisions[0]; d.BestEffort != decide.BestEffortInsufficientReclaim {
			t.Errorf("the bypass: %+v", d)
		}
	})
}

// 50 of a disk are missing. The pod that a webhook denies would have freed enough; a pod that a budget blocks
// bypasses it only for what is needed.
func TestBestEffortForADisk(t *testing.T) {
	type variant struct {
		kept     int64
		measured bool // of a third pod
		deletes  bool
	}
	stories(t, map[string]variant{
		"less than is missing": {49, true, false},
		"as much":              {50, true, true},
		"less than is missing while not all is known": {49, false, false},
	}, func(n *world, _ string, c variant) {
		n.short(pressure.NodeFSAvailable)
		n.holds("denied", onDisk(100, 1, 1, 1))
		n.holds("kept", onDisk(c.kept, 1, 1, 1))
		if n.holds("third", onDisk(0, 1, 1, 1)); !c.measured {
			delete(n.disk.measured, "uid-third")
		}
		n.budgets = map[string]evict.Budget{"shop/kept": {Desired: 1, Healthy: 1}}
		n.policy.BestEffort, n.ends = true, time.Hour
		n.keeps(map[string]evict.Outcome{"denied": evict.Denied, "third": evict.Denied})
		n.watch(5 * time.Second)
		if got := slices.Contains(n.requests(), "delete kept"); got != c.deletes {
			n.t.Errorf("requests %v", n.requests())
		}
		deleted := n.decided(func(d *decide.Decision) bool { return d.BestEffort == decide.BestEffortDeleted })
		if (len(deleted) == 1) != c.deletes {
			n.t.Errorf("the bypass: %+v", n.decisions)
		}
	})
}

// The delete is a victim like any other: its record, its booking and its limits.
func TestBestEffortBooksItsVictim(t *testing.T) {
	type variant struct {
		dryRun bool
		limit  int
		hold   decide.Hold
	}
	stories(t, map[string]variant{
		"it counts against the limit":              {false, 1, decide.HoldLimitReached},
		"it counts against the limit in a dry run": {true, 1, decide.HoldLimitReached},
		"it is relied on":                          {false, 0, decide.HoldReclaimInProgress},
	}, func(n *world, _ string, c variant) {
		n.keptNode()
		n.ends = 20 * time.Second
		n.policy.DryRun, n.policy.HardGrace = c.dryRun, 7
		n.limit(c.limit, 0)
		n.watch(15 * time.Second)
		n.sent("evict alone", "evict oneof3", "delete oneof3")
		if r := n.evictions[2]; r.UID != "uid-oneof3" || r.GraceSeconds == nil || *r.GraceSeconds != 7 ||
			r.DryRun != c.dryRun {
			n.t.Errorf("the delete %+v", r)
		}
		d := n.acted()[0]
		if bypassed := d.Victim().Bypassed; bypassed == nil ||
			*bypassed != (evict.Budget{Name: "oneof3", Desired: 3, Healthy: 3}) {
			n.t.Errorf("the record %+v", d)
		}
		n.held(c.hold)
	})
}

// A pod that a budget refused under soft pressure does not have to wait for the end of its back-off when hard
// pressure begins. Only the pod that is to be deleted is tried again before that: an old refusal is not relied on,
// and a pod whose budget has room again is evicted.
func TestBestEffortChecksBudgetsOnceMore(t *testing.T) {
	type variant struct {
		changes func(n *world)
		now     evict.Outcome
		want    []string // after the refusals under soft pressure
	}
	none := func(*world) {}
	other := []string{"evict oneof3", "evict alone", "delete alone"}
	stories(t, map[string]variant{
		"it refuses again": {none, evict.BlockedByBudget, []string{"evict oneof3", "delete oneof3"}},
		"its budget has room": {
			func(n *world) { n.budgets["shop/oneof3"] = evict.Budget{Desired: 3, Healthy: 4} }, evict.Evicted,
			[]string{"evict oneof3"},
		},
		"its budget was deleted": {
			func(n *world) { delete(n.budgets, "shop/oneof3") }, evict.Evicted, []string{"evict oneof3"},
		},
		"a webhook denies it by now: the other one, as if alone": {none, evict.Denied, other},
		"it has gone: the other one, by a new decision": {
			func(n *world) { n.goes("oneof3") }, evict.Gone, other,
		},
		"the API server is overloaded: no pod": {none, evict.Throttled, []string{"evict oneof3"}},
	}, func(n *world, _ string, c variant) {
		n.keptNode()
		n.threshold(pressure.MemoryAvailable, pressure.Fraction(0.2), false)
		n.host, n.ends = -60*Mebi, time.Hour
		n.After(5*time.Second, func() {
			n.host = 0
			n.keeps(map[string]evict.Outcome{"oneof3": c.now})
			c.changes(n)
		})
		n.watch(5*time.Second + 900*time.Millisecond)
		n.sent(append([]string{"evict alone", "evict oneof3"}, c.want...)...)
	})
}

// hadItsTurn remembers that a pod of an owner was evicted, and that one of an owner may be in an hour.
func (n *world) hadItsTurn(owner string) {
	n.limit(0, 1)
	n.option = func(o *agent.Options) {
		o.Remembered.Cooldown.Accepted = []cooldown.Accepted{{Owner: owner, At: n.began}}
	}
}

// A pod that is not evicted for other reasons does not prevent the bypass for the others.
func TestBestEffortWhileAnotherOwnerIsLeftAlone(t *testing.T) {
	story(t, func(n *world) {
		n.keptNode()
		n.runs("left 300/100")
		n.host = -300 * Mebi
		n.hadItsTurn("rs-left")
		n.watch(time.Second)
		n.sent("evict alone", "evict oneof3", "delete oneof3")
	})
}

func TestOwnersLimitHoldsPastABudgetToo(t *testing.T) {
	story(t, func(n *world) {
		n.keptNode()
		n.hadItsTurn("rs-oneof3")
		n.watch(time.Second)
		n.sent("evict alone", "delete alone")
	})
}

// A pod in back-off for another reason does not keep the others from being considered.
func TestBestEffortPassesOverOtherRefusals(t *testing.T) {
	story(t, func(n *world) {
		n.keptNode()
		n.keeps(map[string]evict.Outcome{"delete oneof3": evict.Denied})
		n.watch(12 * time.Second)
		n.sent("evict alone", "evict oneof3", "delete oneof3", "evict alone", "delete alone")
	})
}

// A missing right is reported at each attempt. It does not count against the pod, which is tried as before.
func TestBestEffortWithoutTheRight(t *testing.T) {
	story(t, func(n *world) {
		n.keptNode()
		answer := n.answer
		n.answer = func(r evict.Request) evict.Result {
			if r.Delete {
				return evict.Result{Outcome: evict.Denied, NoRight: true}
			}
			return answer(r)
		}
		n.watch(12 * time.Second)
		n.sent("evict alone", "evict oneof3", "delete oneof3", "evict alone", "evict oneof3", "delete oneof3")
	})
}

// Unknown is never zero: unless all budgets are known, the one that is violated least is not. The API server does
// not get a hundred requests a second because of that.
func TestBestEffortWithoutABudget(t *testing.T) {
	story(t, func(n *world) {
		n.keptNode()
		n.unbudgeted = errPlanted()
		n.watch(35 * time.Second)
		if slices.Contains(n.requests(), "delete oneof3") || slices.Contains(n.requests(), "delete alone") {
			t.Errorf("a pod was deleted: %v", n.requests())
		}
		if reads := len(n.budgetReads); reads < 3 || reads > 5 {
			t.Errorf("%d budgets read in 35 s, want one every 10 s", reads)
		}
		if d := n.decisions[0]; d.Verb != decide.Refused ||
			!strings.Contains(d.Detail, "no pod bypasses a PDB: planted") {
			t.Errorf("the record does not say why: %+v", d)
		}
		if !slices.Contains(n.Holds(), decide.HoldBudgetUnknown) {
			t.Errorf("holds %v, want BudgetUnknown where no pod was tried", n.Holds())
		}
	})
}

// The node recovers while the second answer is awaited: no budget is bypassed.
func TestRecoveryMeanwhileKeepsTheBudget(t *testing.T) {
	story(t, func(n *world) {
		n.keptNode()
		n.slow = 5 * time.Second
		n.After(7*time.Second, func() { n.capacity *= 2 })
		n.watch(20 * time.Second)
		n.sent("evict alone", "evict oneof3")
		if d := n.last(); !strings.Contains(d.Detail, "recovered meanwhile") {
			t.Errorf("the record does not say why no pod was evicted: %+v", d)
		}
	})
}

func TestDeleteInDoubtIsResolved(t *testing.T) {
	story(t, func(n *world) {
		n.keptNode()
		n.ends, n.behind = time.Hour, true // the watch does not tell either
		answer := n.answer
		n.answer = func(r evict.Request) evict.Result {
			if r.Delete {
				n.terminate(r.UID) // it was carried out
				return lost(r)
			}
			return answer(r)
		}
		n.watch(13 * time.Second)
		same(t, "looked into", []string{"oneof3"}, n.looks)
		if d := n.acted()[0]; d.Victim().Result.Outcome != evict.Deleted || d.BestEffort != decide.BestEffortDeleted {
			t.Errorf("that it was deleted is not on record: %+v", d)
		}
	})
}

// A budget that blocks the only pod above its request makes no other pod a candidate. It may be bypassed as if there
// were no other pod.
func TestBestEffortBesidePodsWithinRequests(t *testing.T) {
	each(t, []bool{false, true}, func(n *world, bestEffort bool) {
		n.hostOnNode(40)
		n.Run("exceeds", 40, 10, func(p *corev1.Pod) { p.Status.Conditions = nil })
		n.budgets = map[string]evict.Budget{"shop/exceeds": {Healthy: 1, Desired: 1}}
		n.keeps(nil)
		n.policy.BestEffort = bestEffort
		n.watch(time.Minute)
		if got := slices.Compact(n.Victims()); !slices.Equal(got, []string{"exceeds"}) ||
			(n.pod("exceeds") != nil) == bestEffort {
			n.t.Errorf("evicted %v; the pod is there: %v", got, n.pod("exceeds") != nil)
		}
	})
}

// alike gives a pod the labels of an application.
func alike(p *corev1.Pod) { p.Labels = map[string]string{"app": "web"} }

// manyOfOneBudget are thirty ready pods, of which a budget keeps each, and one small pod of another that it does not,
// of a node that is short of memory.
func (n *world) manyOfOneBudget(change ...func(*corev1.Pod)) {
	n.memory(10000)
	for i := range 30 {
		n.Run(fmt.Sprintf("web%02d", i), int64(299-i), 10, change...)
	}
	n.runs("free 200/10")
	n.host = 9100*Mebi - 30*285*Mebi - 200*Mebi
	n.answer = func(r evict.Request) evict.Result {
		if !strings.HasPrefix(r.Name, "web") {
			return evict.Result{Outcome: evict.Evicted}
		}
		return evict.Result{Outcome: evict.BlockedByBudget, Budget: "web"}
	}
}

func TestOnePodIsTriedForAllThatABudgetBlocks(t *testing.T) {
	story(t, func(n *world) {
		n.manyOfOneBudget(alike)
		n.watch(time.Second)
		n.evicted("web00", "free")
		same(t, "notes", []string{"29 more that PodDisruptionBudget shop/web blocks were not tried"}, n.decisions[0].Notes)
		if waiting := n.kept().Cooldown; waiting.Refused() != 30 {
			t.Errorf("%d pods are said to be blocked, want 30", waiting.Refused())
		}
	})
}

// Whatever their labels, the pods that the budget itself has refused are in back-off with it.
func TestBudgetsRefusalsAreRemembered(t *testing.T) {
	story(t, func(n *world) {
		n.manyOfOneBudget()
		delete(n.pods, "uid-free")
		n.host += 200 * Mebi
		n.watch(9 * time.Second)
		if asked := len(n.Victims()); asked != 30 {
			t.Fatalf("%d requests, want one for each pod that nothing is known of", asked)
		}
		for _, e := range n.last().Ranking.Protected {
			if want := "the last answer of PodDisruptionBudget web was BlockedByBudget"; e.Detail != want {
				t.Errorf("detail %q, want %q", e.Detail, want)
			}
		}
		n.on(time.Minute) // one pod whenever the budget has rested
		same(t, "evicted within the next minute", []string{"web00", "web00"}, n.Victims()[30:])
	})
}

// Pods that the budget allows to be evicted are tried: pods that are not ready, and pods that it does not select.
func TestPodsThatTheBudgetAllowsAreTried(t *testing.T) {
	stories(t, map[string]func(*corev1.Pod){
		"not ready": unready,
		"other labels, same controller": func(p *corev1.Pod) {
			p.Labels = map[string]string{"app": "web", "role": "replica"}
			p.OwnerReferences[0].UID = "rs-web00"
		},
		"another namespace": func(p *corev1.Pod) { p.Namespace = "office" },
	}, func(n *world, _ string, other func(*corev1.Pod)) {
		n.manyOfOneBudget(alike)
		n.Run("other", 250, 10, alike, other)
		n.host -= 250 * Mebi
		n.watch(time.Second)
		n.evicted("web00", "other")
	})
}

// crowd is the number of pods of slowCrowd: one request for each takes longer than the first wait of a back-off.
const crowd = 12

// slowCrowd is a node that is short of 50 MiB, whose pods are each refused after ten seconds; the last of the ranking
// is p00. It has fewer ticks, because these plans take minutes.
func (n *world) slowCrowd(outcome evict.Outcome) {
	n.memory(10000)
	n.host = n.capacity - 950*Mebi
	n.budgets = map[string]evict.Budget{}
	for i := range crowd {
		name, memory := fmt.Sprintf("p%02d", i), int64(110+i)
		n.Run(name, memory, 10)
		n.budgets["shop/"+name] = evict.Budget{Desired: 1, Healthy: 1}
		n.host -= memory * Mebi
	}
	n.slow = 10 * time.Second
	n.answers(map[string]evict.Outcome{"": outcome, "culprit": evict.Evicted})
	n.policy.Pacing.Min = 100 * time.Millisecond
}

// A pod that begins to leak while a plan is carried out is evicted by the next ranking, and not only after all pods
// of the old one.
func TestWalkDoesNotGoOnByAnOldRanking(t *testing.T) {
	story(t, func(n *world) {
		n.slowCrowd(evict.Denied)
		n.ends = time.Hour
		time.AfterFunc(25*time.Second, func() { n.runs("culprit 700/10") })
		n.watch(42 * time.Second)
		n.evicted("p11", "p10", "p09", "culprit")
	})
}

// A plan that is carried out quickly is one decision.
func TestQuickWalkIsOneDecision(t *testing.T) {
	story(t, func(n *world) {
		n.slowCrowd(evict.Denied)
		n.slow = 400 * time.Millisecond
		n.watch(8 * time.Second)
		if len(n.decisions) == 0 || len(n.decisions[0].Attempts) != crowd {
			t.Errorf("the first of %d decisions does not try all", len(n.decisions))
		}
	})
}

// Back-offs are shorter than a series of slow plans: no pod is tried twice before each pod was tried once; then all
// are tried again.
func TestSlowRefusalsStarveNoPod(t *testing.T) {
	all := []evict.Outcome{evict.BlockedByBudget, evict.BudgetPending, evict.Denied}
	each(t, all, func(n *world, outcome evict.Outcome) {
		n.slowCrowd(outcome)
		n.watch(4 * time.Minute)
		victims := n.Victims()
		if len(victims) <= crowd || len(slices.Compact(slices.Sorted(slices.Values(victims[:crowd])))) != crowd {
			n.t.Fatalf("not every pod was tried before one was tried again: %v", victims)
		}
		if victims[crowd] != "p11" {
			n.t.Errorf("the next round begins with %s, want the first of the ranking", victims[crowd])
		}
	})
}

// With bestEffort a pod bypasses its budget once all candidates were refused, however long that took. One that
// arrives while the last candidate is tried is evicted before any budget is bypassed.
func TestSlowRefusalsByBudgetsEndInADelete(t *testing.T) {
	each(t, []bool{false, true}, func(n *world, arrives bool) {
		n.slowCrowd(evict.BlockedByBudget)
		n.ends, n.policy.BestEffort = time.Hour, true
		want := []string{"evict p00", "evict p05", "delete p05"}
		n.budgets["shop/p05"] = evict.Budget{Desired: 5, Healthy: 5}
		if arrives {
			want = []string{"evict p00", "evict culprit"}
			culprit, answer := n.Run("culprit", 700, 10), n.answer
			delete(n.pods, "uid-culprit")
			n.answer = func(r evict.Request) evict.Result {
				if r.Name == "p00" {
					n.pods["uid-culprit"] = culprit
				}
				return answer(r)
			}
		}
		n.watch(3 * time.Minute)
		all := n.requests()
		if len(all) < crowd-1+len(want) || !slices.Equal(all[crowd-1:crowd-1+len(want)], want) {
			n.t.Errorf("requests %v, want one for each pod and then %v", all, want)
		}
	})
}

// A round is of one pressure, and ends with a victim and when no candidate is left: then the next one begins with the
// first of the ranking.
func TestRoundEnds(t *testing.T) {
	type variant struct {
		happens func(n *world)
		during  time.Duration
		want    []string
	}
	stories(t, map[string]variant{
		"with its pressure": {func(n *world) {
			n.After(9*time.Second, func() { n.unsynced = true }) // so that the next decision holds
			n.takes(15*time.Second, -1000)
			n.After(20*time.Second, func() { n.unsynced = false })
			n.takes(time.Minute, 1000)
		}, 72 * time.Second, []string{"p11", "p11"}},
		"with a victim": {func(n *world) {
			n.runs("culprit 110/20") // the last but one
			n.pod("p10").memory = 110 * Mebi
			n.After(25*time.Second, func() { n.pod("culprit").memory += 30 * Mebi; n.host -= 30 * Mebi })
		}, 55 * time.Second, []string{"p11", "p09", "p08", "culprit", "p11"}},
		"when no candidate is left": {func(n *world) {
			n.After(9*time.Second, func() {
				for uid, pod := range n.pods {
					if uid != "uid-p11" {
						n.host += pod.memory
						delete(n.pods, uid)
					}
				}
			})
		}, 30 * time.Second, []string{"p11", "p11"}},
	}, func(n *world, _ string, c variant) {
		n.slowCrowd(evict.BudgetPending)
		c.happens(n)
		n.watch(c.during)
		n.evicted(c.want...)
	})
}
