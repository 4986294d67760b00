package inflight

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/nodepods"
	"github.com/evictd/evictd/pkg/evict"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
)

// world is a node with pods, for random histories of a tracker.
type world struct {
	random  *rand.Rand
	node    *node
	tracker *Tracker
	now     time.Time
	holds   map[string]int64 // what the pods that are there hold of memory, by UID
	ending  map[string]bool  // those that others end
	kinds   int              // of things that happen
}

// All kinds of things happen, or all but a restart.
const allKinds, withoutRestart = 7, 6

func newWorld(seed uint64, kinds int) *world {
	w := &world{
		random: rand.New(rand.NewPCG(seed, 7)), now: at(0), holds: map[string]int64{}, ending: map[string]bool{}, kinds: kinds,
	}
	w.node = &node{runs: w.present}
	w.tracker = on(w.node)
	return w
}

func (w *world) present(uid string) bool            { return w.holds[uid] > 0 }
func (w *world) gone(uid string) bool               { return !w.present(uid) }
func (w *world) memory(uid string) pressure.Amounts { return memory(w.holds[uid]) }

// happen makes one random thing happen to a pod.
func (w *world) happen(t *testing.T) {
	t.Helper()
	w.now = w.now.Add(time.Duration(w.random.IntN(20_000)) * time.Millisecond)
	uid := fmt.Sprintf("pod-%d", w.random.IntN(6))
	if w.gone(uid) {
		w.holds[uid] = w.random.Int64N(100) + 1
	}
	deadline := w.now.Add(time.Duration(w.random.IntN(120)) * time.Second)
	switch w.random.IntN(w.kinds) {
	case 0: // an eviction, perhaps of a pod that is in flight already, never of a would-be victim
		if !w.tracker.Simulated(uid) {
			b := victim(uid, w.holds[uid])
			b.Accepted, b.Deadline, b.Signal, b.DryRun = w.now, deadline, "memory.available", w.random.IntN(2) == 0
			w.tracker.Accept(b)
		}
	case 1, 2:
		w.end(uid)
	case 3: // it is measured again
		w.holds[uid] = w.random.Int64N(100) + 1
		measured(w.tracker, uid, w.memory(uid))
	case 4:
		outcomes := []evict.Outcome{evict.Evicted, evict.BlockedByBudget, evict.Unconfirmed}
		escalates(w.tracker, uid, outcomes[w.random.IntN(len(outcomes))], w.now)
	case 5: // it has ended
		delete(w.holds, uid)
		delete(w.ending, uid)
	default: // a restart
		kept := w.tracker.Export()
		w.tracker = on(w.node)
		w.tracker.Restore(kept, w.now)
	}
	w.list()
	w.tracker.Update(t.Context(), w.now) // as before each sample
}

// end lets others end a pod that a request found so.
func (w *world) end(uid string) {
	w.ending[uid] = true
	b := victim(uid, w.holds[uid])
	b.Accepted, b.Deadline = w.now, w.now.Add(decide.GoneFor)
	w.tracker.Accept(b)
}

// list has the node tell what there is.
func (w *world) list() {
	w.node.pods, w.node.holds = nil, map[string]pressure.Amounts{}
	for uid := range w.holds {
		w.node.pods = append(w.node.pods, &nodepods.Pod{Pod: rank.Pod{UID: uid, Marks: rank.Marks{Terminating: w.ending[uid]}}, CgroupUID: uid})
		w.node.holds[uid] = w.memory(uid)
	}
}

// histories runs a check of what is booked before and after each step of many random histories.
func histories(t *testing.T, check func(w *world, before []decide.Victim) error) {
	t.Helper()
	for seed := range uint64(150) {
		w := newWorld(seed, allKinds)
		for step := range 60 {
			before := w.tracker.All()
			w.happen(t)
			if err := check(w, before); err != nil {
				t.Fatalf("seed %d, step %d: %v", seed, step, err)
			}
		}
	}
}

// TestWhatAPodHoldsIsReliedOnOnce: however often a pod is evicted, and by whichever client, what it
// holds is relied on once, by the last measurement: no byte is in flight twice, or in flight and
// counted as reclaimed.
func TestWhatAPodHoldsIsReliedOnOnce(t *testing.T) {
	t.Parallel()
	counted, simulated := 0, 0
	histories(t, func(w *world, _ []decide.Victim) error {
		const memory = pressure.MemoryAvailable
		got := decide.Relied(w.tracker.All(), short(memory, w.now, false))
		all := got + w.tracker.simulatedAmount(memory)
		most := int64(0)
		for uid, holds := range w.holds {
			if w.tracker.Terminates(uid) || w.tracker.Simulated(uid) {
				most += holds
			}
		}
		if all > most {
			return fmt.Errorf("%d are relied on and %d counted as reclaimed, of %d that the pods hold", got, all-got, most)
		}
		if got > 0 {
			counted++
		}
		if all > got {
			simulated++
		}
		return nil
	})
	if counted < 1000 || simulated < 100 {
		t.Errorf("relied on %d times, simulated %d times: the histories are not worth testing", counted, simulated)
	}
}

// TestAPodThatIsPresentStaysBooked: a pod that is present stays booked, over a restart too, with
// the deadline that it had: only a dry run's booking ends at the deadline. Only a response moves a deadline, and a pod that has ended is no longer booked.
func TestAPodThatIsPresentStaysBooked(t *testing.T) {
	t.Parallel()
	kept := 0
	histories(t, func(w *world, before []decide.Victim) error {
		after := map[string]decide.Victim{}
		for _, b := range w.tracker.All() {
			after[b.UID] = b
			if w.gone(b.UID) {
				return fmt.Errorf("%s is booked and has gone", b.UID)
			}
		}
		for _, b := range before {
			a, booked := after[b.UID]
			mayEnd := b.DryRun && w.now.After(b.Deadline)
			if !booked && w.present(b.UID) && !mayEnd {
				return fmt.Errorf("%+v is forgotten at %v", b, w.now)
			}
			same := a.Signal == b.Signal && a.DryRun == b.DryRun && a.Escalated.Equal(b.Escalated)
			if booked && same && (!a.Deadline.Equal(b.Deadline) || !a.Accepted.Equal(b.Accepted)) {
				return fmt.Errorf("%+v became %+v", b, a)
			}
			if booked && same {
				kept++
			}
		}
		return nil
	})
	if kept < 1000 {
		t.Errorf("kept %d times: the histories are not worth testing", kept)
	}
}
