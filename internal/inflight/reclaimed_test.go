package inflight_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/inflight"
	"github.com/evictd/evictd/pkg/pressure"
)

// TestReclaimIsADifferenceOfBooks: what the other pods take and free moves within the books and
// counts for no victim; what processes outside the pods take does count.
func TestReclaimIsADifferenceOfBooks(t *testing.T) {
	t.Parallel()
	memory := func(amount int64) pressure.Amounts { return pressure.Amounts{}.With(pressure.MemoryAvailable, amount) }
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 1))
		tracker, now := inflight.New(), at(0)
		victim := victim("a", 300)
		victim.Signal = "memory.available"
		tracker.Accept(victim)
		held, other, available, host := int64(300), int64(1000), int64(5000), int64(0)
		read := func() inflight.Books {
			return inflight.Books{Available: memory(available - host), Held: map[string]pressure.Amounts{"a": memory(held), "b": memory(other)}}
		}
		for range random.IntN(10) + 1 {
			now = now.Add(time.Second)
			if len(tracker.ObserveBooks(now, nil, read)) != 0 {
				t.Fatalf("seed %d: it has ended", seed)
			}
			moved := random.Int64N(200) - 100
			other, available = other+moved, available-moved
		}
		host = random.Int64N(100) - 50
		available, held = available+held, 0
		ended := tracker.Observe(now, never)
		got := tracker.ObserveBooks(now, ended, read)
		if want := (decide.Reclaimed{Expected: 300, Actual: 300 - host}); len(got) != 1 || *got[0].Reclaim != want {
			t.Fatalf("seed %d: ended %+v, want %+v", seed, got, want)
		}
		if again := tracker.ObserveBooks(now.Add(time.Hour), ended, read); again != nil {
			t.Fatalf("seed %d: it has ended twice: %+v", seed, again)
		}
	}
}
