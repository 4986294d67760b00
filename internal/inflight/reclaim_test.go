package inflight

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/evictd/evictd/pkg/pressure"
)

// TestReclaimThatIsNotKnown: what an end frees of a disk or a stall is not known; of tasks it is
// known only when all of them could be counted.
func TestReclaimThatIsNotKnown(t *testing.T) {
	t.Parallel()
	everything, seen := pressure.Amounts{}, pressure.Sample{}
	for _, signal := range pressure.Signals() {
		everything = everything.With(signal, 100)
		seen.Observations[signal] = pressure.Observation{State: pressure.Known, Available: 100}
	}
	uncounted := everything.Without(pressure.PIDAvailable)
	read := books{seen, map[string]pressure.Amounts{"a": everything, "b": uncounted}}
	for _, signal := range pressure.Signals() {
		measured := signal.ReclaimMeasured() && signal != pressure.PIDAvailable
		if sum, known := read.sum(signal); known != measured || known && sum != 300 {
			t.Errorf("%v: known %v, %d; want %v", signal, known, sum, measured)
		}
	}
	read.held["b"] = everything
	if sum, known := read.sum(pressure.PIDAvailable); !known || sum != 300 {
		t.Errorf("tasks that were counted: %d, known %v", sum, known)
	}
}

// TestReclaimIsADifferenceOfBooks: what the other pods take and free moves within the books and
// counts for no victim; what processes outside the pods take does count. It is not known where the books could not
// be read.
func TestReclaimIsADifferenceOfBooks(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 1))
		n := &node{holds: map[string]pressure.Amounts{"a": memory(300)}}
		tracker, now := on(n), at(0)
		tracker.Accept(own("a", 300))
		other, available := int64(1000), int64(5000)
		read := func() pressure.Sample { return *reading(pressure.MemoryAvailable, now, available) }
		for range random.IntN(10) + 1 {
			n.holds["b"] = memory(other)
			now = now.Add(time.Second)
			if len(tracker.ObserveReclaim(now, nil, read)) != 0 {
				t.Fatalf("seed %d: it has ended", seed)
			}
			moved := random.Int64N(200) - 100
			other, available = other+moved, available-moved
		}
		host := random.Int64N(100) - 50
		available += 300 - host
		n.holds = map[string]pressure.Amounts{"b": memory(other)}
		ended := endGone(tracker, now, never)
		if seed%4 == 0 {
			n.unread = errors.New("planted")
		}
		got := tracker.ObserveReclaim(now, ended, read)
		if n.unread != nil {
			if len(got) != 1 || got[0].Last != nil || got[0].Freed != nil {
				t.Fatalf("seed %d: ended %+v, of which nothing was read", seed, got)
			}
			continue
		}
		if len(got) != 1 || *got[0].Last != 300 || *got[0].Freed != 300-host {
			t.Fatalf("seed %d: ended %+v, want 300 that freed %d", seed, got, 300-host)
		}
		if again := tracker.ObserveReclaim(now.Add(time.Hour), ended, read); again != nil {
			t.Fatalf("seed %d: it has ended twice: %+v", seed, again)
		}
	}
}
