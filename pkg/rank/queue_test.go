package rank

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// tenant holds the pods of one namespace.
func tenant(name string, change ...func(*Queue)) Queue {
	q := Queue{Name: name, Holds: func(namespace string, _ map[string]string) bool { return namespace == name }}
	for _, c := range change {
		c(&q)
	}
	return q
}

func fence(q *Queue)                  { q.Fence = true }
func offset(n int32) func(*Queue)     { return func(q *Queue) { q.Offset = n } }
func disabled(q *Queue)               { q.IgnorePriority = true }
func guaranteed(n int64) func(*Queue) { return func(q *Queue) { q.GuaranteedMemory = n * mebi } }
func below(qs ...Queue) func(*Queue)  { return func(q *Queue) { q.Queues = qs } }

// in puts a pod into a namespace.
func in(namespace string, p Pod) Pod {
	p.Namespace = namespace
	return p
}

func TestQueues(t *testing.T) {
	t.Parallel()
	const high = 1000000000
	for name, test := range map[string]struct {
		queues []Queue
		pods   []Pod
		want   string
		shown  []int32 // to the root
	}{
		"no fence: the higher priority wins": {
			[]Queue{tenant("a"), tenant("b")},
			podsOf(t, "a/a1 900 100 1000000000", "a/a2 800 100 1000000001", "b/b1 110 100 0"),
			"b1 priority a1 priority a2 .",
			[]int32{0, high, high + 1},
		},
		"a fence hides them, and keeps the order inside": {
			[]Queue{tenant("a", fence), tenant("b")},
			podsOf(t, "a/a1 900 100 1000000001", "a/a2 800 100 1000000000", "b/b1 110 100 0"),
			"a2 priority a1 over b1 .",
			[]int32{0, 0, 0},
		},
		"an offset lifts a fenced tenant": {
			[]Queue{tenant("a", fence, offset(10)), tenant("b", offset(5))},
			podsOf(t, "a/a1 900 100 7", "b/b1 110 100 4", "b/b2 110 100 6"),
			"b1 priority a1 priority b2 .",
			[]int32{9, 10, 11},
		},
		"offsets add up on the way to the root, and stay within int32": {
			[]Queue{tenant("a", offset(math.MaxInt32), below(tenant("a", offset(math.MaxInt32)))), tenant("b", offset(math.MinInt32), below(tenant("b", offset(-7))))},
			podsOf(t, "a/a1 900 100 7", "b/b1 110 100 4"), "b1 priority a1 .",
			[]int32{math.MinInt32, math.MaxInt32},
		},
		"priorities that are switched off stay so below": {
			[]Queue{tenant("a", disabled, below(tenant("a"))), tenant("b")},
			podsOf(t, "a/a1 110 100 7", "a/a2 120 100 9", "b/b1 110 100 -1"),
			"b1 priority a2 over a1 .",
			[]int32{-1, 0, 0},
		},
		"exceeding comes before every priority": {[]Queue{tenant("a", fence, offset(high)), tenant("b")}, podsOf(t, "a/a1 110 100 0", "b/b1 50 100 -5"), "a1 exceeds b1 .", []int32{high, -5}},
		"behind a fence the queues still see each other": {
			[]Queue{{Name: "group", Fence: true, Queues: []Queue{tenant("a", offset(10)), tenant("b")}}},
			podsOf(t, "a/a1 900 100 0", "b/b1 110 100 5"),
			"b1 priority a1 .",
			[]int32{0, 0},
		},
		"pods of no queue belong to the root": {
			[]Queue{tenant("a", fence, offset(1))},
			podsOf(t, "a/a1 900 100 1000000000", "c/c1 110 100 0", "c/c2 110 100 2"),
			"c1 priority a1 priority c2 .",
			[]int32{0, 1, 2},
		},
		"the key is that of the queue in which the two were compared": {
			[]Queue{tenant("a", fence), tenant("b")},
			podsOf(t, "a/a1 900 100 9", "a/a2 800 100 8", "b/b1 110 100 0", "b/b2 50 100 0"),
			"a2 priority a1 over b1 exceeds b2 .",
			[]int32{0, 0, 0, 0},
		},
	} {
		ranking := Order(Memory, test.pods, Rules{Queues: test.queues})
		if got := orderOf(&ranking); got != test.want {
			t.Errorf("%s: got %s; want %s", name, got, test.want)
		}
		for i, e := range ranking.Candidates {
			if got := e.EffectivePriority(); got != test.shown[i] {
				t.Errorf("%s: %s counts as %d; want %d", name, e.Pod.Name, got, test.shown[i])
			}
			if why := e.Why(); (e.Pod.Priority != test.shown[i]) != strings.Contains(why, fmt.Sprintf("priority %d, counts as %d by queue %s", e.Pod.Priority, test.shown[i], e.Queue())) {
				t.Errorf("%s: why: %s", name, why)
			}
		}
	}
}

func TestPodsBelongToTheDeepestQueue(t *testing.T) {
	t.Parallel()
	batch := Queue{Name: "batch", Holds: func(_ string, labels map[string]string) bool { return labels["kind"] == "batch" }}
	queues := []Queue{
		{Name: "group", Queues: []Queue{tenant("a", below(batch)), tenant("b")}},
		{Name: "group2", Queues: []Queue{tenant("c")}},
	}
	pods := podsOf(t, "a/a1 1 1 0", "a/a2 1 1 0", "b/b1 1 1 0", "c/c1 1 1 0", "z/z1 1 1 0", "z/z2 1 1 0")
	for i := range pods {
		if strings.HasSuffix(pods[i].Name, "2") {
			pods[i].Labels = map[string]string{"kind": "batch"}
		}
	}
	pods[4].Owner = "" // protected pods have a queue too
	got := map[string]string{}
	ranking := Order(Memory, pods, Rules{Queues: queues, BarePods: true})
	for _, e := range slices.Concat(ranking.Candidates, ranking.Protected) {
		got[e.Pod.Name] = e.Queue()
	}
	want := map[string]string{
		"a1": "root.group.a", "a2": "root.group.a.batch", "b1": "root.group.b", "c1": "root.group2.c", "z1": "root", "z2": "root",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("queues (-want +got):\n%s", diff)
	}
}

func TestGuarantee(t *testing.T) {
	t.Parallel()
	a, group := tenant("a", guaranteed(1000)), Queue{Name: "t", GuaranteedMemory: 1000 * mebi, Queues: []Queue{tenant("a"), tenant("b")}}
	const calm = "b/b1 50 100 9"
	for name, test := range map[string]struct {
		resource Resource
		queues   []Queue
		pods     []Pod
		want     string
	}{
		"a queue that uses less than it is guaranteed gives no pod": {Memory, []Queue{a, tenant("b")}, podsOf(t, "a/a1 900 100 0", calm), "b1"},
		"a queue that uses as much is like all others":              {Memory, []Queue{tenant("a", guaranteed(900)), tenant("b")}, podsOf(t, "a/a1 900 100 0", calm), "a1 b1"},
		"the pods of a queue count together, protected ones too":    {Memory, []Queue{a, tenant("b")}, append(podsOf(t, "a/a1 600 100 0", calm), in("a", bare(pod("a2", 400, 100, 0)))), "a1 b1"},
		"the queue above counts those below, and shelters them":     {Memory, []Queue{group, tenant("c")}, podsOf(t, "a/a1 500 100 0", "b/b1 400 100 0", "c/c1 50 100 9"), "c1"},
		"when no other pod can be evicted, one of them is": {
			Memory, []Queue{a, tenant("b", guaranteed(1000))}, append(podsOf(t, "a/a1 900 100 0", calm), in("c", bare(pod("c1", 500, 0, 0)))), "a1 b1",
		},
		"a pod that could not be read counts nothing": {Memory, []Queue{a, tenant("b")}, append(podsOf(t, "a/a1 900 100 0", calm), in("a", unsampled(pod("a2", 900, 100, 0)))), "b1"},
		"memory is guaranteed, nothing else":          {PIDs, []Queue{a, tenant("b")}, podsOf(t, "a/a1 900 100 0", calm), "a1 b1"},
	} {
		ranking := Order(test.resource, test.pods, Rules{Queues: test.queues, BarePods: true})
		if got := strings.Join(namesOf(ranking.Candidates), " "); got != test.want {
			t.Errorf("%s: candidates %s; want %s", name, got, test.want)
		}
		for _, e := range ranking.Protected {
			if e.Pod.Owner != "" && e.Pod.Sampled && e.Protection != ProtectedWithinGuarantee {
				t.Errorf("%s: %s is protected by %q", name, e.Pod.Name, e.Protection)
			}
		}
	}
	// A pod that a guarantee protects names the queue and the amount.
	const want = "protected: WithinGuarantee; queue root.t uses 500.0Mi of the 1000.0Mi that it is guaranteed"
	protected := Order(Memory, podsOf(t, "a/a1 500 100 0", "c/c1 50 100 9"), Rules{Queues: []Queue{group, tenant("c")}}).Protected
	if len(protected) != 1 || protected[0].Why() != want {
		t.Errorf("protected: %+v, want %q", protected, want)
	}
}

func bare(p Pod) Pod {
	p.Owner = ""
	return p
}

func unsampled(p Pod) Pod {
	p.Sampled = false
	return p
}

// anyQueues returns a tree of depth three over the namespaces n0 to n9.
func anyQueues(r *rand.Rand) []Queue {
	return queuesOf(func(q *Queue) {
		q.Fence, q.IgnorePriority = r.IntN(3) == 0, r.IntN(5) == 0
		q.Offset = []int32{0, 0, 1, -1, math.MaxInt32, math.MinInt32}[r.IntN(6)]
	})
}

func queuesOf(change func(q *Queue)) (groups []Queue) {
	for g := range 3 {
		group := Queue{Name: fmt.Sprint("g", g)}
		change(&group)
		for n := range 3 {
			group.Queues = append(group.Queues, tenant(fmt.Sprint("n", g*3+n), change))
		}
		groups = append(groups, group)
	}
	return groups
}

// spread puts pods into the namespaces n0 to n9; no queue holds the last one.
func spread(r *rand.Rand, pods []Pod) []Pod {
	for i := range pods {
		pods[i].Namespace = fmt.Sprint("n", r.IntN(10))
		pods[i].Usage, pods[i].Request = pods[i].Usage>>8, pods[i].Request>>8 // sums stay within int64
	}
	return pods
}

func TestQueuesWithoutPropertiesAreTheFlatOrder(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(7, 8))
	for range 200 {
		pods, resource := spread(r, anyPods(r, 1+r.IntN(80))), Resource(r.IntN(4))
		plain := queuesOf(func(*Queue) {})
		flat, tree := Order(resource, pods, Rules{}), Order(resource, pods, Rules{Queues: plain})
		if diff := cmp.Diff(orderOf(&flat), orderOf(&tree)); diff != "" {
			t.Fatalf("%v: (-flat +queues):\n%s", resource, diff)
		}
	}
}

// The pods that belong to one queue directly keep the queue's order, whatever surrounds it.
func TestQueuesKeepTheirOwnOrder(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(11, 12))
	for range 200 {
		pods, queues := spread(r, anyPods(r, 60)), anyQueues(r)
		ranking := Order(Memory, pods, Rules{Queues: queues})
		for n := range 9 {
			namespace := fmt.Sprint("n", n)
			alone := slices.DeleteFunc(slices.Clone(pods), func(p Pod) bool { return p.Namespace != namespace })
			want := namesOf(Order(Memory, alone, Rules{Queues: queues}).Candidates)
			if diff := cmp.Diff(want, namesWhere(ranking, func(p *Pod) bool { return p.Namespace == namespace })); diff != "" {
				t.Fatalf("%s (-alone +among others):\n%s", namespace, diff)
			}
		}
	}
}

// namesWhere returns the names of candidates.
func namesWhere(ranking Ranking, is func(*Pod) bool) []string {
	return namesOf(slices.DeleteFunc(slices.Clone(ranking.Candidates), func(e Entry) bool { return !is(e.Pod) }))
}

// A fenced tenant's priorities do not change the order of the others among themselves. Nor
// do they change the whole order, where all of its priorities are raised alike.
func TestFencedPrioritiesChangeNothingOutside(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(13, 14))
	inside := func(p *Pod) bool { return strings.Contains("n0 n1 n2", p.Namespace) }
	for range 300 {
		pods, queues := spread(r, anyPods(r, 60)), anyQueues(r)
		queues[0].Fence = true
		with := func(priority func(i int) int32) Ranking {
			changed := slices.Clone(pods)
			for i := range changed {
				if inside(&changed[i]) {
					changed[i].Priority = priority(i)
				}
			}
			return Order(Memory, changed, Rules{Queues: queues})
		}
		outside := func(ranking Ranking) []string { return namesWhere(ranking, func(p *Pod) bool { return !inside(p) }) }
		before, rewritten := Order(Memory, pods, Rules{Queues: queues}), with(func(int) int32 { return int32(r.IntN(2000000000)) })
		if diff := cmp.Diff(outside(before), outside(rewritten)); diff != "" {
			t.Fatalf("others, before and after a tenant rewrote its priorities:\n%s", diff)
		}
		if slices.ContainsFunc(queues[0].Queues, func(q Queue) bool { return q.Fence || q.IgnorePriority }) {
			continue // its pods would be raised, but not those beside it in the fence
		}
		for i := range queues[0].Queues {
			queues[0].Queues[i].Offset = 0 // no sum is at the limit of int32
		}
		even, raised := with(func(i int) int32 { return int32(i % 5) }), with(func(i int) int32 { return int32(i%5) + 1000000000 })
		if diff := cmp.Diff(namesOf(even.Candidates), namesOf(raised.Candidates)); diff != "" {
			t.Fatalf("the order, before and after a tenant raised all its priorities:\n%s", diff)
		}
	}
}

// No guarantee is inverted: while one pod outside of all sheltered queues can be evicted,
// no pod inside is. Neighbors that cannot be evicted for the moment lift none.
func TestGuaranteesAreNeverInverted(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(15, 16))
	kept, lifted := 0, 0
	for range 500 {
		pods, queues := spread(r, anyPods(r, 30)), anyQueues(r)
		within := map[string]int64{} // what is missing to the guarantee, by namespace
		for i := range queues {
			for j := range queues[i].Queues {
				q := &queues[i].Queues[j]
				q.GuaranteedMemory = r.Int64N(math.MaxInt64 >> 6)
				within[q.Name] = q.GuaranteedMemory
			}
		}
		for _, p := range pods {
			if p.Sampled {
				within[p.Namespace] -= p.Usage
			}
		}
		ranking := Order(Memory, pods, Rules{Queues: queues})
		sheltered := 0
		for _, e := range ranking.Candidates {
			if within[e.Pod.Namespace] > 0 {
				sheltered++
			}
		}
		switch {
		case sheltered == 0:
			kept++
		case sheltered == len(ranking.Candidates):
			lifted++
		default:
			t.Fatalf("%d of %d candidates are within a guarantee", sheltered, len(ranking.Candidates))
		}
		ranking.Withhold(func(*Entry) Protection { return ProtectedBackingOff })
		if len(ranking.Candidates) != 0 {
			t.Fatalf("candidates %v, want none: all that could be evicted were refused", namesOf(ranking.Candidates))
		}
	}
	if kept < 100 {
		t.Errorf("a guarantee held in %d of 500 states: the states are not worth testing", kept)
	}
	t.Logf("held in %d states, lifted in %d", kept, lifted)
}
