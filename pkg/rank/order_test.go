package rank

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const mebi = 1 << 20

func born(minute int) time.Time { return time.Date(2026, 3, 1, 12, minute, 0, 0, time.UTC) }

// pod returns a candidate with that usage and request in MiB.
func pod(name string, usage, request int64, priority int32) Pod {
	return Pod{
		Namespace: "shop", Name: name, UID: "uid-" + name, Priority: priority, Created: born(0),
		Usage: usage * mebi, Request: request * mebi, Sampled: true, Owner: "ReplicaSet/" + name,
	}
}

func namesOf(entries []Entry) []string {
	names := make([]string, 0, len(entries))
	for i := range entries {
		names = append(names, entries[i].Pod.Name)
	}
	return names
}

// podsOf reads candidates, each written as "[namespace/]name usage request priority".
func podsOf(t *testing.T, texts ...string) (pods []Pod) {
	t.Helper()
	for _, text := range texts {
		var name string
		var usage, request int64
		var priority int32
		if _, err := fmt.Sscan(text, &name, &usage, &request, &priority); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		namespace, name, found := strings.Cut(name, "/")
		if !found {
			namespace, name = "shop", namespace
		}
		pods = append(pods, in(namespace, pod(name, usage, request, priority)))
	}
	return pods
}

// orderOf writes the candidates, each with the key that puts it before the next.
func orderOf(ranking *Ranking) string {
	var all []string
	for _, e := range ranking.Candidates {
		key := map[Key]string{KeyExceeds: "exceeds", KeyPriority: "priority", KeyOver: "over", KeyAge: "age", KeyUID: "uid", KeyNone: "."}
		all = append(all, e.Pod.Name, key[e.Before])
	}
	return strings.Join(all, " ")
}

func TestOrder(t *testing.T) {
	t.Parallel()
	young := pod("young", 200, 100, 0)
	young.Created = born(5)
	for name, test := range map[string]struct {
		resource Resource
		pods     []Pod
		want     string
	}{
		"over its request before a lower priority":   {Memory, podsOf(t, "within 100 200 -5", "over 201 200 1000"), "over exceeds within ."},
		"usage equal to the request does not exceed": {Memory, podsOf(t, "equal 200 200 0", "over 2 1 0"), "over exceeds equal ."},
		"lower priority before larger usage":         {Memory, podsOf(t, "big 900 100 10", "low 200 100 0"), "low priority big ."},
		"larger usage over request, not larger":      {Memory, podsOf(t, "large 800 700 0", "greedy 300 100 0"), "greedy over large ."},
		"the younger pod":                            {Memory, []Pod{pod("old", 200, 100, 0), young}, "young age old ."},
		"the UID":                                    {Memory, podsOf(t, "b 200 100 0", "a 200 100 0"), "a uid b ."},
		"PIDs know no exceeds step":                  {PIDs, podsOf(t, "over 900 0 10", "low 2 5 0"), "low priority over ."},
	} {
		ranking := Order(test.resource, test.pods, Rules{})
		if got := orderOf(&ranking); got != test.want {
			t.Errorf("%s: got %s; want %s", name, got, test.want)
		}
	}
}

// anyPods returns pods with many equal keys and extreme numbers.
func anyPods(r *rand.Rand, n int) []Pod {
	numbers := []int64{0, 1, 100, 100, math.MaxInt64 / 2, math.MaxInt64}
	priorities := []int32{math.MinInt32, -1, 0, 0, 1, 1999999999}
	pods := make([]Pod, 0, n)
	for i := range n {
		pods = append(pods, Pod{
			Namespace: "n", Name: fmt.Sprint("p", i), UID: fmt.Sprintf("uid-%04d", i), Owner: "ReplicaSet/r",
			Usage: numbers[r.IntN(len(numbers))], Request: numbers[r.IntN(len(numbers))],
			Priority: priorities[r.IntN(len(priorities))], Created: born(r.IntN(3)), Sampled: r.IntN(10) > 0,
		})
	}
	return pods
}

// Guards invariant 3, with queues and without: the order is total, and does not depend on the order of
// the input. Antisymmetry and transitivity follow from the positions.
func TestInvariant03SameFactsSameRanking(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	for round := range 500 {
		pods, resource, rules := anyPods(r, 1+r.IntN(60)), Resource(r.IntN(4)), Rules{}
		if round%2 == 0 {
			pods, rules.Queues = spread(r, pods), anyQueues(r)
		}
		first := Order(resource, slices.Clone(pods), rules)
		names := namesOf(first.Candidates)
		if got := len(first.Candidates) + len(first.Protected); got != len(pods) {
			t.Fatalf("%d of %d pods are in the ranking", got, len(pods))
		}
		for range 4 {
			r.Shuffle(len(pods), func(i, j int) { pods[i], pods[j] = pods[j], pods[i] })
			again := Order(resource, slices.Clone(pods), rules)
			if diff := cmp.Diff(names, namesOf(again.Candidates)); diff != "" {
				t.Fatalf("round %d, %v (-first +shuffled):\n%s", round, resource, diff)
			}
		}
	}
}

func benchmarkOrder(b *testing.B, n int) {
	b.Helper()
	pods := anyPods(rand.New(rand.NewPCG(5, 6)), n)
	b.ReportAllocs()
	for b.Loop() {
		Order(Memory, pods, Rules{DaemonSets: true, BarePods: true})
	}
}

func BenchmarkRank110(b *testing.B)  { benchmarkOrder(b, 110) }
func BenchmarkRank5000(b *testing.B) { benchmarkOrder(b, 5000) }
