package decide

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/evictd/evictd/pkg/pressure"
)

// TestInsufficientReclaimNeverWithholdsWhatWouldHelp: what the rules promise for any candidates: the candidates
// of a held decision cannot suffice; those that are not withheld suffice; and a pod that is evicted
// would have been evicted without the rules.
func TestInsufficientReclaimNeverWithholdsWhatWouldHelp(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	held, withheld := 0, 0
	for range 20_000 {
		missing, atLeast := 1+r.Int64N(1000), r.Int64N(100)
		all := make([]Reclaim, 1+r.IntN(12))
		sum, known := int64(0), true
		for i := range all {
			all[i] = Reclaim{Amount: r.Int64N(1 + r.Int64N(400)), Known: r.IntN(40) > 0}
			if !all[i].Known {
				all[i].Amount, known = 0, false
			}
			sum += all[i].Amount
		}
		if !Suffice(missing, all) {
			held++
			if !known || sum >= missing {
				t.Fatalf("held: %d missing, %+v", missing, all)
			}
			continue
		}
		if known && sum < missing {
			t.Fatalf("not held: %d missing, %+v", missing, all)
		}
		if !largerSuffice(missing, atLeast, all) {
			continue
		}
		withheld++
		rest := slices.DeleteFunc(slices.Clone(all), func(c Reclaim) bool { return c.Known && c.Amount < atLeast })
		if before, after := goUntil(missing, all), goUntil(missing, rest); after > before || !reaches(missing, rest[:after]) {
			t.Fatalf("%d missing, at least %d each: of %+v the first %d would have been evicted, of the rest %d are", missing, atLeast, all, before, after)
		}
		if last := all[:goUntil(missing, all)]; slices.Index(last, rest[goUntil(missing, rest)-1]) < 0 {
			t.Fatalf("%d missing, at least %d each: one of %+v is evicted that would have stayed", missing, atLeast, all)
		}
	}
	if held < 100 || withheld < 100 {
		t.Errorf("held %d times, withheld %d times: the states are not worth testing", held, withheld)
	}
}

// goUntil returns how many go, in their order, until nothing is missing.
func goUntil(missing int64, all []Reclaim) int {
	for i, c := range all {
		if missing -= c.Amount; missing <= 0 {
			return i + 1
		}
	}
	return len(all)
}

func reaches(missing int64, all []Reclaim) bool {
	for _, c := range all {
		missing -= c.Amount
	}
	return missing <= 0
}

// One that is not known may be all that is needed, and is not relied on either.
func TestUnknownReclaimIsNeitherNothingNorEnough(t *testing.T) {
	t.Parallel()
	unknown, small, large := Reclaim{}, Reclaim{1, true}, Reclaim{100, true}
	for _, test := range []struct {
		name            string
		candidates      []Reclaim
		suffice, larger bool
	}{
		{"unknown alone", []Reclaim{unknown}, true, false},
		{"unknown and a small one", []Reclaim{unknown, small}, true, false},
		{"a small one and unknown", []Reclaim{small, unknown}, true, false},
		{"a large one first", []Reclaim{large, small, unknown}, true, true},
		{"unknown before the large one", []Reclaim{unknown, large, small}, true, false},
		{"a small one alone", []Reclaim{small}, false, false},
		{"none", nil, false, false},
	} {
		if got := Suffice(100, test.candidates); got != test.suffice {
			t.Errorf("%s: suffice %t, want %t", test.name, got, test.suffice)
		}
		if got := largerSuffice(100, 5, test.candidates); got != test.larger {
			t.Errorf("%s: the larger suffice %t, want %t", test.name, got, test.larger)
		}
	}
	if r := ReclaimOf(pressure.NodeFSAvailable, pressure.Amounts{}.With(pressure.ImageFSAvailable, 5)); r.Known {
		t.Error("a signal that is missing in the books counts as known")
	}
	if r := ReclaimOf(pressure.MemoryStall, pressure.Amounts{}.With(pressure.MemoryStall, 1<<40)); r.Known {
		t.Error("what ends a stall counts as known")
	}
}
