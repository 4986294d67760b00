package victims

import (
	"errors"
	"testing"
	"time"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/measure"
	"github.com/evictd/evictd/internal/nodepods"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/usage"
)

// TestReclaimThatIsNotKnown: what an end frees of a disk or a stall is not known; of tasks it is
// known only when all of them could be counted.
func TestReclaimThatIsNotKnown(t *testing.T) {
	t.Parallel()
	sample := pressure.Sample{Time: time.Now()}
	for i := range sample.Observations {
		sample.Observations[i] = pressure.Observation{State: pressure.Known, Available: 100, Capacity: 1000}
	}
	pods := []usage.Pod{{UID: "a", Anonymous: 5, WorkingSet: 7, Tasks: 3, TasksKnown: true}, {UID: "b", Anonymous: 1, WorkingSet: 1}}
	books := booksOf(sample, pods, pressure.Kernel)
	want := map[pressure.Signal]int64{pressure.MemoryAvailable: 106, pressure.KubeletMemoryAvailable: 108, pressure.AllocatableMemoryAvailable: 106}
	for _, signal := range pressure.Signals() {
		got, gotKnown := books.Sum(signal)
		if sum, known := want[signal]; gotKnown != known || got != sum {
			t.Errorf("%v: known %v, %d; want %v, %d", signal, gotKnown, got, known, sum)
		}
	}
	counted := booksOf(sample, pods[:1], pressure.Kernel)
	if got, known := counted.Sum(pressure.PIDAvailable); !known || got != 103 {
		t.Errorf("tasks that were counted: %d, known %v", got, known)
	}
}

// node has one pod, which frees what it held when it ends; unread says that its cgroups cannot be
// read.
type node struct {
	held   int64
	unread error
}

func (n *node) Collect(into []usage.Pod) ([]usage.Pod, error) {
	if n.held == 0 {
		return into, n.unread
	}
	return append(into, usage.Pod{UID: "a", Anonymous: n.held}), n.unread
}
func (n *node) Stalls() ([]usage.Stall, error) { return nil, nil }
func (n *node) Present(string) (bool, error)   { return n.held > 0, n.unread }
func (n *node) Synced() bool                   { return true }
func (n *node) List() []*nodepods.Pod          { return nil }
func (n *node) sample() (s pressure.Sample) {
	s.Observations[pressure.MemoryAvailable] = pressure.Observation{State: pressure.Known, Available: 1000 - n.held, Capacity: 1000}
	return s
}

// TestReclaimOfAVictimThatEnded: what a victim's end freed is reported once, and only when all
// books were read.
func TestReclaimOfAVictimThatEnded(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		unread error
		want   *decide.Reclaimed
	}{
		"all is read":          {nil, &decide.Reclaimed{Expected: 300, Actual: 300}},
		"a pod cannot be read": {errors.New("planted"), nil},
	} {
		n, now := &node{held: 300}, time.Now()
		fault := func(string, error) {}
		f := New(Options{Pods: n, Cgroups: n, Fault: fault, Measurer: measure.New(measure.Options{Cgroups: n, Fault: fault})})
		f.Accept(decide.Victim{
			UID: "a", Signal: pressure.MemoryAvailable.String(), Accepted: now, Deadline: now.Add(time.Minute),
			Expected: pressure.Amounts{}.With(pressure.MemoryAvailable, 300),
		})
		if told := f.ObserveReclaim(now, f.Begin(now), n.sample); len(told) != 0 {
			t.Fatalf("%s: told of %d while it is there", name, len(told))
		}
		n.held = 0
		ended := f.Begin(now.Add(time.Second))
		if len(ended) != 1 {
			t.Fatalf("%s: %d have ended, want the one", name, len(ended))
		}
		n.unread = test.unread
		told := f.ObserveReclaim(now.Add(time.Second), ended, n.sample)
		switch {
		case len(told) != 1:
			t.Errorf("%s: told of %d", name, len(told))
		case (told[0].Reclaim == nil) != (test.want == nil):
			t.Errorf("%s: %+v, want %+v", name, told[0].Reclaim, test.want)
		case test.want != nil && *told[0].Reclaim != *test.want:
			t.Errorf("%s: %+v, want %+v", name, *told[0].Reclaim, *test.want)
		}
	}
}
