package rank

import (
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Between any two neighbors, the key that decides is the one that the ranking names, and its values differ.
func TestCompareSaysTheKeyThatDecides(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var queues []Queue
		if r.IntN(2) == 0 {
			queues = anyQueues(r)
		}
		ranking := Order(Resource(r.IntN(4)), spread(r, anyPods(r, 20)), Rules{Queues: queues})
		for i := 1; i < len(ranking.Candidates); i++ {
			a, b := &ranking.Candidates[i-1], &ranking.Candidates[i]
			key, first, second, queue := Compare(a, b)
			if key != a.Before || first == second || (queue == "") != (len(queues) == 0) {
				t.Fatalf("%s and %s: %s, %q and %q in %q, the ranking says %s", a.Pod.Name, b.Pod.Name, key, first, second, queue, a.Before)
			}
		}
	}
}

func TestCompareSaysWhichQueueCompares(t *testing.T) {
	t.Parallel()
	queues := []Queue{tenant("a", fence, offset(5)), tenant("b")}
	ranking := Order(Memory, []Pod{
		in("a", pod("a1", 200, 100, 7)), in("a", pod("a2", 200, 100, 9)), in("b", pod("b1", 200, 100, 6)),
	}, Rules{Queues: queues})
	for i, want := range [][]string{{"7", "9", "root.a"}, {"5", "6", Root}} {
		key, first, second, queue := Compare(&ranking.Candidates[i], &ranking.Candidates[i+1])
		if diff := cmp.Diff(want, []string{first, second, queue}); diff != "" || key != KeyPriority {
			t.Errorf("by %s (-want +got):\n%s", key, diff)
		}
	}
}

// Amounts that are equal after rounding are shown to the byte.
func TestCompareShowsWhatRoundingHides(t *testing.T) {
	t.Parallel()
	a, b := pod("a", 200, 100, 0), pod("b", 200, 100, 0)
	a.Usage++
	ranking := Order(Memory, []Pod{a, b}, Rules{})
	key, first, second, _ := Compare(&ranking.Candidates[0], &ranking.Candidates[1])
	if key != KeyOver || first != "104857601" || second != "104857600" {
		t.Errorf("%s: %s and %s", key, first, second)
	}
}
