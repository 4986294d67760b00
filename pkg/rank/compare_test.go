package rank

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Between any two neighbors, the steps end with the one that decides, which is the key that
// the ranking names, and all steps before it are equal.
func TestCompareEndsWithTheKeyThatDecides(t *testing.T) {
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
			steps, queue := Compare(a, b)
			for j, step := range steps {
				if last := j == len(steps)-1; step.Decides != last || step.Decides == (step.A == step.B) || last && step.Key != a.Before {
					t.Fatalf("step %d of %+v between %s and %s, of which the ranking says %s", j, steps, a.Pod.Name, b.Pod.Name, a.Before)
				}
			}
			if (queue == "") != (len(queues) == 0) {
				t.Fatalf("compared in queue %q, with %d queues", queue, len(queues))
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
	steps, queue := Compare(&ranking.Candidates[0], &ranking.Candidates[1])
	want := []Step{{Key: KeyExceeds, A: "yes", B: "yes"}, {Key: KeyPriority, A: "7", B: "9", Decides: true}}
	if diff := cmp.Diff(want, steps); diff != "" || queue != "root.a" {
		t.Errorf("in queue %q (-want +got):\n%s", queue, diff)
	}
	steps, queue = Compare(&ranking.Candidates[1], &ranking.Candidates[2])
	want[1] = Step{Key: KeyPriority, A: "5", B: "6", Decides: true}
	if diff := cmp.Diff(want, steps); diff != "" || queue != Root {
		t.Errorf("in queue %q (-want +got):\n%s", queue, diff)
	}
}

// Amounts that are equal after rounding are shown to the byte.
func TestCompareShowsWhatRoundingHides(t *testing.T) {
	t.Parallel()
	a, b := pod("a", 200, 100, 0), pod("b", 200, 100, 0)
	a.Usage++
	ranking := Order(Memory, []Pod{a, b}, Rules{})
	steps, _ := Compare(&ranking.Candidates[0], &ranking.Candidates[1])
	if last := steps[len(steps)-1]; last.Key != KeyOver || last.A != "104857601" || last.B != "104857600" {
		t.Errorf("%+v", last)
	}
}

func TestLevels(t *testing.T) {
	t.Parallel()
	queues := []Queue{tenant("a", fence, offset(5), below(tenant("a", disabled, offset(3))))}
	ranking := Order(Memory, []Pod{in("a", pod("a1", 200, 100, 7)), in("c", pod("c1", 200, 100, 8))}, Rules{Queues: queues})
	want := [][]Level{
		{
			{Queue: "root.a.a", Priority: 0, Ignores: true, Offset: 3},
			{Queue: "root.a", Priority: 3, Fence: true, Offset: 5},
			{Queue: "root", Priority: 5},
		},
		{{Queue: "root", Priority: 8}},
	}
	got := [][]Level{ranking.Candidates[0].Levels(), ranking.Candidates[1].Levels()}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("levels (-want +got):\n%s", diff)
	}
	flat := Order(Memory, []Pod{pod("a", 1, 1, 1)}, Rules{})
	if levels := flat.Candidates[0].Levels(); levels != nil {
		t.Errorf("without queues: %+v", levels)
	}
}

// A supposed candidate changes nothing about the others, and has the position that it would
// have without protection.
func TestSuppose(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		pods := spread(r, anyPods(r, 20))
		i := r.IntN(len(pods))
		free := Order(Memory, pods, Rules{})
		pods[i].Marks.DaemonSet, pods[i].Sampled = true, true
		rules := Rules{DaemonSets: true}
		before, supposed := Order(Memory, pods, rules), Suppose(Memory, pods, rules, pods[i].UID)
		names := namesOf(supposed.Candidates)
		if !slices.Contains(names, pods[i].Name) {
			t.Fatalf("%s is not among %v", pods[i].Name, names)
		}
		if diff := cmp.Diff(namesOf(free.Candidates), names); diff != "" && slices.Contains(namesOf(free.Candidates), pods[i].Name) {
			t.Errorf("-without any protection +supposed:\n%s", diff)
		}
		others := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return name == pods[i].Name })
		if diff := cmp.Diff(namesOf(before.Candidates), others); diff != "" {
			t.Errorf("the others (-before +supposed):\n%s", diff)
		}
	}
}

// A pod within its queue's guarantee can be supposed to be a candidate; a pod without a
// usage sample cannot.
func TestSupposeOfAGuaranteeAndOfTheUnknown(t *testing.T) {
	t.Parallel()
	rules := Rules{Queues: []Queue{tenant("a", guaranteed(1000)), tenant("b")}}
	pods := []Pod{in("a", pod("a1", 200, 100, 0)), in("b", pod("b1", 150, 100, 0)), in("b", unsampled(pod("b2", 0, 100, 0)))}
	if got := Suppose(Memory, pods, rules, pods[0].UID); !slices.Equal(namesOf(got.Candidates), []string{"a1", "b1"}) {
		t.Errorf("within a guarantee: %v", namesOf(got.Candidates))
	}
	if got := Suppose(Memory, pods, rules, pods[2].UID); !slices.Equal(namesOf(got.Candidates), []string{"b1"}) {
		t.Errorf("not read: %v", namesOf(got.Candidates))
	}
}
