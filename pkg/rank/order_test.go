package rank

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
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

func TestOrder(t *testing.T) {
	t.Parallel()
	young, old := pod("young", 200, 100, 0), pod("old", 200, 100, 0)
	young.Created = born(5)
	uidA, uidB := pod("a", 200, 100, 0), pod("b", 200, 100, 0)
	tests := []struct {
		name     string
		resource Resource
		pods     []Pod
		want     []string
		keys     []Key
	}{
		{
			name: "over its request before a lower priority",
			pods: []Pod{pod("within", 100, 200, -5), pod("over", 201, 200, 1000)},
			want: []string{"over", "within"}, keys: []Key{KeyExceeds, KeyNone},
		},
		{
			name: "usage equal to the request does not exceed",
			pods: []Pod{pod("equal", 200, 200, 0), pod("over", 2, 1, 0)},
			want: []string{"over", "equal"}, keys: []Key{KeyExceeds, KeyNone},
		},
		{
			name: "lower priority before larger usage",
			pods: []Pod{pod("big", 900, 100, 10), pod("low", 200, 100, 0)},
			want: []string{"low", "big"}, keys: []Key{KeyPriority, KeyNone},
		},
		{
			name: "larger usage over request, not larger usage",
			pods: []Pod{pod("large", 800, 700, 0), pod("greedy", 300, 100, 0)},
			want: []string{"greedy", "large"}, keys: []Key{KeyOver, KeyNone},
		},
		{
			name: "the younger pod", pods: []Pod{old, young},
			want: []string{"young", "old"}, keys: []Key{KeyAge, KeyNone},
		},
		{
			name: "the UID", pods: []Pod{uidB, uidA},
			want: []string{"a", "b"}, keys: []Key{KeyUID, KeyNone},
		},
		{
			name: "PIDs know no exceeds step", resource: PIDs,
			pods: []Pod{pod("over", 900, 0, 10), pod("low", 2, 5, 0)},
			want: []string{"low", "over"}, keys: []Key{KeyPriority, KeyNone},
		},
		{
			name: "the kubelet's reference case (TestMemoryPressure)",
			pods: []Pod{
				pod("guaranteed-low", 900, 1024, -1), pod("burstable-below", 50, 100, 0),
				pod("burstable-above", 400, 100, 0), pod("best-effort-high", 400, 0, 1),
				pod("best-effort-low", 100, 0, -1),
			},
			want: []string{"best-effort-low", "burstable-above", "best-effort-high", "guaranteed-low", "burstable-below"},
			keys: []Key{KeyPriority, KeyPriority, KeyExceeds, KeyPriority, KeyNone},
		},
		{
			name: "the kubelet's order by usage over request (TestOrderedByMemory)",
			pods: []Pod{
				pod("1", 500, 0, 0), pod("2", 300, 0, 0), pod("3", 800, 100, 0),
				pod("4", 300, 100, 0), pod("5", 800, 1024, 0), pod("6", 200, 1024, 0),
			},
			want: []string{"3", "1", "2", "4", "5", "6"},
			keys: []Key{KeyOver, KeyOver, KeyOver, KeyExceeds, KeyOver, KeyNone},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			ranking := Order(test.resource, test.pods, Rules{})
			if diff := cmp.Diff(test.want, namesOf(ranking.Candidates)); diff != "" {
				t.Errorf("order (-want +got):\n%s", diff)
			}
			var keys []Key
			for _, e := range ranking.Candidates {
				keys = append(keys, e.Before)
			}
			if diff := cmp.Diff(test.keys, keys); diff != "" {
				t.Errorf("deciding keys (-want +got):\n%s", diff)
			}
		})
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

// Guards invariant 3: the same facts in any order give the same ranking.
func TestInvariant03SameFactsSameRanking(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	for round := range 200 {
		pods := anyPods(r, 1+r.IntN(60))
		resource := Resource(r.IntN(4))
		want := namesOf(Order(resource, pods, Rules{}).Candidates)
		for range 5 {
			shuffled := slices.Clone(pods)
			r.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
			if diff := cmp.Diff(want, namesOf(Order(resource, shuffled, Rules{}).Candidates)); diff != "" {
				t.Fatalf("round %d, %v (-first +shuffled):\n%s", round, resource, diff)
			}
		}
	}
}

func TestOrderIsAntisymmetricTransitiveAndTotal(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(3, 4))
	for _, resource := range []Resource{Memory, Disk, Inodes, PIDs} {
		entries := make([]Entry, 0, 40)
		pods := anyPods(r, 40)
		for i := range pods {
			entries = append(entries, newEntry(resource, &pods[i], &Rules{}))
		}
		less := func(i, j int) bool {
			c, _ := compare(&entries[i], &entries[j], pods[i].Priority, pods[j].Priority)
			return c < 0
		}
		for i := range entries {
			for j := range entries {
				if i != j && less(i, j) == less(j, i) {
					t.Fatalf("%v: %v and %v are not ordered", resource, entries[i].Pod, entries[j].Pod)
				}
				for k := range entries {
					if less(i, j) && less(j, k) && !less(i, k) {
						t.Fatalf("%v: not transitive over %d, %d, %d", resource, i, j, k)
					}
				}
			}
		}
	}
}

// Each entry is sorted before those that the comparison puts after it.
func TestSortingAgreesWithTheComparison(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(7, 8))
	for _, resource := range []Resource{Memory, Disk, Inodes, PIDs} {
		for range 200 {
			pods := anyPods(r, 40)
			for i := range pods {
				if r.IntN(2) == 0 { // equal but for the fields below
					pods[i].Priority, pods[i].Usage, pods[i].Request = math.MinInt32, 7, r.Int64N(8)
				}
			}
			entries := Order(resource, pods, Rules{}).Candidates
			for i := 1; i < len(entries); i++ {
				a, b := &entries[i-1], &entries[i]
				if order, key := compare(a, b, a.Pod.Priority, b.Pod.Priority); order >= 0 {
					t.Fatalf("%v: %+v is sorted before %+v, and goes after it by: %v", resource, a.Pod, b.Pod, key)
				}
			}
		}
	}
}

func TestWhy(t *testing.T) {
	t.Parallel()
	pods := []Pod{pod("over", 300, 100, 5), pod("within", 50, 100, 0), pod("bare", 1, 0, 0)}
	pods[2].Owner = ""
	ranking := Order(Memory, pods, Rules{BarePods: true})
	got := []string{ranking.Candidates[0].Why(), ranking.Candidates[1].Why(), ranking.Protected[0].Why()}
	want := []string{
		"uses 300.0Mi, requests 100.0Mi, 200.0Mi over; priority 5; ahead of the next by: exceeds its request",
		"uses 50.0Mi, requests 100.0Mi; priority 0",
		"protected: NoController",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("why (-want +got):\n%s", diff)
	}
}

func benchmarkOrder(b *testing.B, n int) {
	b.Helper()
	r := rand.New(rand.NewPCG(5, 6))
	pods := anyPods(r, n)
	b.ReportAllocs()
	for b.Loop() {
		Order(Memory, pods, Rules{DaemonSets: true, BarePods: true})
	}
}

func BenchmarkRank110(b *testing.B)  { benchmarkOrder(b, 110) }
func BenchmarkRank5000(b *testing.B) { benchmarkOrder(b, 5000) }
