package rank

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWithhold(t *testing.T) {
	t.Parallel()
	pods := append(podsOf(t, "a 900 100 0", "b 500 100 0", "c 500 100 5", "d 50 100 0"), // d is within its request
		Pod{Namespace: "shop", Name: "bare", UID: "bare", Sampled: true})
	for withheld, want := range map[string]struct{ candidates, protected string }{
		"":     {"a over b priority c exceeds d .", "bare"},
		"b":    {"a priority c exceeds d .", "b bare"},
		"bc":   {"a exceeds d .", "b bare c"},
		"d":    {"a over b priority c .", "bare d"},
		"abcd": {"", "a b bare c d"},
	} {
		ranking := Order(Memory, pods, Rules{BarePods: true})
		ranking.Withhold(func(e *Entry) Protection {
			if !strings.Contains(withheld, e.Pod.Name) {
				return NotProtected
			}
			e.Detail = "for " + e.Pod.Name
			return ProtectedBackingOff
		})
		if candidates, protected := orderOf(&ranking), strings.Join(namesOf(ranking.Protected), " "); candidates != want.candidates || protected != want.protected {
			t.Errorf("%q withheld: candidates %s, protected %s; want %+v", withheld, candidates, protected, want)
		}
		for i, e := range ranking.Candidates {
			if e.Position != i+1 || e.Protection != NotProtected || e.Detail != "" {
				t.Errorf("%q withheld: candidate %d: %+v", withheld, i, e)
			}
		}
		for _, e := range ranking.Protected {
			if e.Pod.Name != "bare" && (e.Position != 0 || e.Before != KeyNone || e.Protection != ProtectedBackingOff || e.Detail != "for "+e.Pod.Name) {
				t.Errorf("withheld: %+v", e)
			}
		}
	}
}

// The others keep their order, none is lost, and every reported key is true.
func TestWithholdKeepsTheOrderOfTheRest(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(17, 18))
	unordered := 0
	for range 500 {
		resource, rules := Resource(r.IntN(4)), Rules{Queues: anyQueues(r)}
		ranking := Order(resource, spread(r, anyPods(r, 1+r.IntN(60))), rules)
		all := len(ranking.Candidates) + len(ranking.Protected)
		gone := map[string]bool{}
		var want []string
		for _, e := range ranking.Candidates {
			if gone[e.Pod.UID] = r.IntN(2) == 0; !gone[e.Pod.UID] {
				want = append(want, e.Pod.UID)
			}
		}
		ranking.Withhold(func(e *Entry) Protection {
			if gone[e.Pod.UID] {
				return ProtectedBackingOff
			}
			return NotProtected
		})
		var got []string
		for i := range ranking.Candidates {
			e := &ranking.Candidates[i]
			got = append(got, e.Pod.UID)
			if i+1 == len(ranking.Candidates) {
				continue
			}
			next := &ranking.Candidates[i+1]
			x, y := prioritiesBetween(e, next)
			order, key := compare(e, next, x, y)
			if order > 0 {
				unordered++
				key = KeyNone
			}
			if e.Before != key {
				t.Fatalf("%s is ahead of %s by %v, want %v", e.Pod.Name, next.Pod.Name, e.Before, key)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("order of the rest (-want +got):\n%s", diff)
		}
		if n := len(ranking.Candidates) + len(ranking.Protected); n != all {
			t.Fatalf("%d pods, want %d", n, all)
		}
		if !slices.IsSortedFunc(ranking.Protected, byName) {
			t.Fatalf("protected pods are not by name: %v", namesOf(ranking.Protected))
		}
	}
	if unordered == 0 {
		t.Error("no state had a withheld pod between two that no key orders: the states are not worth testing")
	}
}
