package sim

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/pkg/evict"
	"github.com/evictd/evictd/pkg/pressure"
)

// nodeWithBudgets is a node that is short of 50 MiB, and whose two pods have each a budget of its own name: that of the
// first of the ranking is the more violated one. Budgets may be bypassed.
func (n *world) nodeWithBudgets() {
	n.runs("alone 500/100", "oneof3 450/100")
	n.budgets = map[string]evict.Budget{
		"shop/alone":  {Desired: 1, Healthy: 1},
		"shop/oneof3": {Desired: 3, Healthy: 3},
	}
	n.policy.BestEffort = true
	n.refusesByBudget(nil)
}

// refusesByBudget has the API server give outcomes as answers, and refuse by the budget all evictions that have none.
func (n *world) refusesByBudget(besides outcomes) {
	with := outcomes{"": evict.BlockedByBudget}
	maps.Copy(with, besides)
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

// acceptsTheThird has the API server accept the third request, whatever it answers to the others.
func (n *world) acceptsTheThird() {
	answer := n.answer
	n.answer = func(r evict.Request) evict.Result {
		if len(n.evictions) == 3 {
			return evict.Result{Outcome: evict.Evicted}
		}
		return answer(r)
	}
}

func TestBestEffort(t *testing.T) {
	const none, deleted, unknown = "", "delete: Deleted", "no pod bypasses a PDB: "
	type variant struct {
		answers outcomes
		setUp   func(n *world)
		want    []string // after both were refused
		came    string   // of the bypass
	}
	plain := func(*world) {}
	budget := func(desired, healthy int64) func(n *world) {
		return func(n *world) { n.budgets["shop/alone"] = evict.Budget{Desired: desired, Healthy: healthy} }
	}
	alone, oneof3 := []string{"delete alone"}, []string{"delete oneof3"}
	stories(t, map[string]variant{
		"the least violated budget's pod is evicted, and no other": {nil, plain, oneof3, deleted},
		"respect: no pod":                          {nil, func(n *world) { n.policy.BestEffort = false }, nil, none},
		"soft pressure: no pod":                    {nil, func(n *world) { n.policy.Thresholds[0].Hard = false }, nil, none},
		"equal shares: the first of the ranking":   {nil, budget(6, 5), alone, deleted},    // two of six short, as one of three
		"by share and not by count":                {nil, budget(100, 90), alone, deleted}, // eleven short
		"a budget that wants none is not violated": {nil, budget(0, 0), alone, deleted},
		"a pod that is not ready takes nothing from its budget": {nil, func(n *world) {
			budget(4, 3)(n) // a quarter with it and without
			n.changed("alone", unready)
		}, alone, deleted},
		"a status that is behind counts as a budget's refusal": {outcomes{"": evict.BudgetPending}, plain, oneof3, deleted},
		"a pod that a webhook refused is never deleted":        {outcomes{"oneof3": evict.Denied}, plain, alone, deleted},
		"nor a pod that two budgets select":                    {outcomes{"oneof3": evict.Misconfigured}, plain, alone, deleted},
		"no budget refused: no pod":                            {outcomes{"alone": evict.Denied, "oneof3": evict.Misconfigured}, plain, nil, none},
		"one was accepted: no pod":                             {outcomes{"oneof3": evict.Evicted}, plain, nil, none},
		"the API server is overloaded: no pod":                 {outcomes{"oneof3": evict.Throttled}, plain, nil, none},
		"the delete is denied":                                 {outcomes{"delete oneof3": evict.Denied}, plain, oneof3, "delete: Denied"},
		"one has ended meanwhile: no pod in this decision": { // but by the second
			outcomes{"oneof3": evict.Gone}, func(n *world) { n.goes("oneof3") }, []string{"evict alone", "delete alone"}, none,
		},
		"a budget cannot be read: no pod": {nil, func(n *world) { n.unbudgeted = errPlanted() }, nil, unknown + "planted"},
		"a budget that does not exist blocks no pod: its pod is evicted again": {nil, func(n *world) {
			delete(n.budgets, "shop/alone")
			n.acceptsTheThird()
		}, []string{"evict alone"}, none},
		"the pod of one that is not there goes before one whose budget is not violated": {nil, func(n *world) {
			budget(0, 0)(n)
			delete(n.budgets, "shop/oneof3")
			n.acceptsTheThird()
		}, []string{"evict oneof3"}, none},
		"one that is not there and refuses again keeps the others from nothing": {nil, func(n *world) {
			delete(n.budgets, "shop/alone")
		}, []string{"evict alone", "delete oneof3"}, deleted},
		"the refusal names no budget: no pod": {nil, func(n *world) {
			answer := n.answer
			n.answer = func(r evict.Request) evict.Result {
				result := answer(r)
				if r.Name == "alone" {
					result.Budget = ""
				}
				return result
			}
		}, nil, unknown + "the API server did not name the PodDisruptionBudget that keeps shop/alone"},
	}, func(n *world, _ string, c variant) {
		n.nodeWithBudgets()
		n.refusesByBudget(c.answers)
		n.ends = time.Hour
		c.setUp(n)
		n.watch(900 * time.Millisecond) // an overloaded server: the next try is after 1 s
		n.sent(append([]string{"evict alone", "evict oneof3"}, c.want...)...)
		d := n.decisions[0]
		came := d.Detail
		if last := d.Attempts[len(d.Attempts)-1]; last.Bypassed != nil {
			came = "delete: " + string(last.Result.Outcome)
		}
		if came != c.came {
			n.t.Errorf("the bypass: %q, want %q: %+v", came, c.came, d)
		}
	})
}

// The delete is a victim like any other: its record, its booking and its limits.
func TestBestEffortBooksItsVictim(t *testing.T) {
	each(t, []bool{false, true}, func(n *world, dryRun bool) {
		n.nodeWithBudgets()
		n.ends = 20 * time.Second
		n.policy.DryRun, n.policy.HardGrace = dryRun, 7
		n.limit(1, 0)
		n.watch(15 * time.Second)
		n.sent("evict alone", "evict oneof3", "delete oneof3")
		if r := n.evictions[2]; r.UID != "uid-oneof3" || r.GraceSeconds == nil || *r.GraceSeconds != 7 || r.DryRun != dryRun {
			n.t.Errorf("the delete %+v", r)
		}
		if b := n.acted()[0].Victim().Bypassed; b == nil || *b != (evict.Budget{Name: "oneof3", Desired: 3, Healthy: 3}) {
			n.t.Errorf("the budget on record is %+v", b)
		}
		n.held(decide.HoldLimitReached)
		n.follows("oneof3", "memory.available")
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
		n.nodeWithBudgets()
		n.threshold(pressure.MemoryAvailable, pressure.Fraction(0.2), false)
		n.host, n.ends = -60*Mebi, time.Hour
		n.After(5*time.Second, func() {
			n.host = 0
			n.refusesByBudget(outcomes{"oneof3": c.now})
			c.changes(n)
		})
		n.watch(5*time.Second + 900*time.Millisecond)
		n.sent(append([]string{"evict alone", "evict oneof3"}, c.want...)...)
	})
}

// What else keeps a pod is as if there were no budget.
func TestBestEffortBesideOtherReasons(t *testing.T) {
	first := []string{"evict alone", "evict oneof3", "delete oneof3"}
	// 50 of a disk are missing. The pod that a webhook denies would have freed enough.
	disk := func(holds int64) func(n *world) {
		return func(n *world) {
			n.pods = map[string]*Pod{}
			n.short(nodefs)
			n.holds("denied", onDisk(100, 1, 1, 1))
			n.holds("oneof3", onDisk(holds, 1, 1, 1))
			n.refusesByBudget(outcomes{"denied": evict.Denied})
		}
	}
	type variant struct {
		setUp  func(n *world)
		during time.Duration
		want   []string
	}
	stories(t, map[string]variant{
		"another owner's limit prevents no bypass for the others": {func(n *world) {
			n.runs("left 300/100")
			n.host = -300 * Mebi
			n.hadItsTurn("rs-left")
		}, time.Second, first},
		"its owner's limit holds past a budget too": {
			func(n *world) { n.hadItsTurn("rs-oneof3") }, time.Second, []string{"evict alone", "delete alone"},
		},
		"one in back-off for another reason keeps none from being considered": {func(n *world) {
			n.refusesByBudget(outcomes{"delete oneof3": evict.Denied})
		}, 12 * time.Second, append(first, "evict alone", "delete alone")},
		"a missing right does not count against the pod": {func(n *world) {
			answer := n.answer
			n.answer = func(r evict.Request) evict.Result {
				if r.Delete {
					return evict.Result{Outcome: evict.Denied, NoRight: true}
				}
				return answer(r)
			}
		}, 12 * time.Second, slices.Concat(first, first)},
		"all that budgets block would not suffice": {func(n *world) {
			n.host = 865 * Mebi
			for name, memory := range map[string]int64{"alone": 40, "oneof3": 45} {
				n.pod(name).memory = memory * Mebi
				n.pod(name).api.Spec.Containers[0].Resources.Requests = nil
			}
		}, time.Second, []string{"evict oneof3"}},
		"of a disk, whose pod holds less than is missing": {disk(49), 5 * time.Second, []string{"evict denied"}},
		"of a disk, whose pod holds as much":              {disk(50), 5 * time.Second, append([]string{"evict denied"}, first[1:]...)},
		"the node recovers while the second answer is awaited": {func(n *world) {
			n.slow = 5 * time.Second
			n.After(7*time.Second, func() { n.capacity *= 2 })
		}, 20 * time.Second, first[:2]},
	}, func(n *world, _ string, c variant) {
		n.nodeWithBudgets()
		c.setUp(n)
		n.watch(c.during)
		n.sent(c.want...)
	})
}

// Unknown is never zero: unless all budgets are known, the one that is violated least is not. The API server does
// not get a hundred requests a second because of that.
func TestBestEffortWithoutABudget(t *testing.T) {
	story(t, func(n *world) {
		n.nodeWithBudgets()
		n.unbudgeted = errPlanted()
		n.watch(35 * time.Second)
		if reads := len(n.budgetReads); reads < 3 || reads > 5 {
			t.Errorf("%d budgets read in 35 s, want one every 10 s", reads)
		}
		if !slices.Contains(n.Holds(), decide.HoldBudgetUnknown) {
			t.Errorf("holds %v, want BudgetUnknown where no pod was tried", n.Holds())
		}
	})
}

// A budget that blocks the only pod above its request makes no other pod a candidate. It may be bypassed as if there
// were no other pod.
func TestBestEffortBesidePodsWithinRequests(t *testing.T) {
	each(t, []bool{false, true}, func(n *world, bestEffort bool) {
		n.hostOnNode()
		n.host -= 40 * Mebi
		n.Run("exceeds", 40, 10, func(p *corev1.Pod) { p.Status.Conditions = nil })
		n.budgets = map[string]evict.Budget{"shop/exceeds": {Healthy: 1, Desired: 1}}
		n.refusesByBudget(nil)
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

// A budget keeps thirty ready pods, and none but a small one beside them. Pods that it allows to be evicted are tried: pods that are not ready, and pods that it does not select.
func TestOnePodIsTriedForAllThatABudgetBlocks(t *testing.T) {
	stories(t, map[string]func(*corev1.Pod){
		"none is allowed": nil,
		"not ready":       unready,
		"other labels, same controller": func(p *corev1.Pod) {
			p.Labels = map[string]string{"app": "web", "role": "replica"}
			p.OwnerReferences[0].UID = "rs-web00"
		},
		"another namespace": func(p *corev1.Pod) { p.Namespace = "office" },
	}, func(n *world, _ string, other func(*corev1.Pod)) {
		n.memory(10000)
		for i := range 30 {
			n.Run(fmt.Sprintf("web%02d", i), int64(299-i), 10, alike)
		}
		n.runs("free 200/10")
		n.host = 9100*Mebi - 30*285*Mebi - 200*Mebi
		n.answer = func(r evict.Request) evict.Result {
			if !strings.HasPrefix(r.Name, "web") {
				return evict.Result{Outcome: evict.Evicted}
			}
			return evict.Result{Outcome: evict.BlockedByBudget, Budget: "web"}
		}
		if other != nil {
			n.Run("other", 250, 10, alike, other)
			n.host -= 250 * Mebi
			n.evicts(time.Second, "web00", "other")
			return
		}
		n.evicts(time.Second, "web00", "free")
		same(n.t, "notes", []string{"29 more that PodDisruptionBudget shop/web blocks were not tried"}, n.decisions[0].Notes)
		if waits := n.kept().Cooldown.Waits; len(waits) != 30+1 {
			n.t.Errorf("%d wait, want 30 pods and their PodDisruptionBudget: %v", len(waits), waits)
		}
	})
}

// many is the number of pods of slowRefusalsOfMany: one request for each takes longer than the first wait of a back-off.
const many = 12

// slowRefusalsOfMany is a node that is short of 50 MiB, whose pods are each refused after ten seconds; the last of the ranking
// is p00. It has fewer ticks, because these plans take minutes.
func (n *world) slowRefusalsOfMany(outcome evict.Outcome) {
	n.memory(10000)
	n.host = n.capacity - 950*Mebi
	n.budgets = map[string]evict.Budget{}
	for i := range many {
		name, memory := fmt.Sprintf("p%02d", i), int64(110+i)
		n.Run(name, memory, 10)
		n.budgets["shop/"+name] = evict.Budget{Desired: 1, Healthy: 1}
		n.host -= memory * Mebi
	}
	n.slow = 10 * time.Second
	n.answers(outcomes{"": outcome, "culprit": evict.Evicted})
	n.policy.Pacing.Min = 100 * time.Millisecond
}

// A plan that is carried out quickly is one decision. A pod that begins to leak while a slow one is carried out is
// evicted by the next ranking, and not only after all pods of the old one.
func TestPlanDoesNotGoOnByAnOldRanking(t *testing.T) {
	type variant struct {
		slow, during time.Duration
		want         []string
	}
	all := make([]string, many)
	for i := range all {
		all[i] = fmt.Sprintf("p%02d", many-1-i)
	}
	stories(t, map[string]variant{
		"a quick plan": {400 * time.Millisecond, 8 * time.Second, all},
		"a slow plan":  {10 * time.Second, 42 * time.Second, []string{"p11", "p10", "p09", "culprit"}},
	}, func(n *world, name string, c variant) {
		n.slowRefusalsOfMany(evict.Denied)
		n.slow, n.ends = c.slow, time.Hour
		time.AfterFunc(25*time.Second, func() { n.runs("culprit 700/10") })
		n.evicts(c.during, c.want...)
		if tried := len(n.decisions[0].Attempts); (tried == many) != (name == "a quick plan") {
			n.t.Errorf("the first of %d decisions tries %d pods", len(n.decisions), tried)
		}
	})
}

// Back-offs are shorter than a series of slow plans: no pod is tried twice before each pod was tried once; then all
// are tried again.
func TestSlowRefusalsStarveNoPod(t *testing.T) {
	each(t, []evict.Outcome{evict.BlockedByBudget, evict.BudgetPending, evict.Denied}, func(n *world, outcome evict.Outcome) {
		n.slowRefusalsOfMany(outcome)
		n.watch(4 * time.Minute)
		victims := n.Victims()
		if len(victims) <= many || len(slices.Compact(slices.Sorted(slices.Values(victims[:many])))) != many {
			n.t.Fatalf("not every pod was tried before one was tried again: %v", victims)
		}
		if victims[many] != "p11" {
			n.t.Errorf("the next round begins with %s, want the first of the ranking", victims[many])
		}
	})
}

// With bestEffort a pod bypasses its budget once all candidates were refused, however long that took. One that
// arrives while the last candidate is tried is evicted before any budget is bypassed.
func TestSlowRefusalsByBudgetsEndInADelete(t *testing.T) {
	each(t, []bool{false, true}, func(n *world, arrives bool) {
		n.slowRefusalsOfMany(evict.BlockedByBudget)
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
		if len(all) < many-1+len(want) || !slices.Equal(all[many-1:many-1+len(want)], want) {
			n.t.Errorf("requests %v, want one for each pod and then %v", all, want)
		}
	})
}
