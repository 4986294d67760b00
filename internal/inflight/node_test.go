package inflight

import (
	"context"
	"time"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/nodepods"
	"github.com/evictd/evictd/pkg/pressure"
)

// node is a node with the pods that it lists, and what the cgroups of those that run hold.
type node struct {
	pods   []*nodepods.Pod
	runs   func(uid string) bool // whether a pod's cgroup is there; nil: none is
	holds  map[string]pressure.Amounts
	onDisk map[string]pressure.Amounts
	unread error
}

func (*node) Synced() bool            { return true }
func (n *node) List() []*nodepods.Pod { return append([]*nodepods.Pod(nil), n.pods...) }

func (n *node) Held(time.Time) (map[string]pressure.Amounts, error) { return n.holds, n.unread }

func (n *node) Present(uid string) (there, known bool) {
	return n.runs != nil && n.runs(uid), n.unread == nil
}
func (*node) RefreshDisk(context.Context, time.Time, []*nodepods.Pod, time.Duration) {}
func (n *node) LastOnDisk(cgroupUID string) pressure.Amounts                         { return n.onDisk[cgroupUID] }

// on returns a tracker of a node.
func on(n *node) *Tracker {
	return New(n, n)
}

// endGone ends the victims of which that is not said, as if it was the next tick.
func endGone(t *Tracker, now time.Time, there func(uid string) bool) []decide.Victim {
	n, is := t.pods.(*node)
	if !is {
		return nil
	}
	n.runs = there
	ended, _ := t.Update(context.Background(), now)
	return ended
}

func at(offset time.Duration) time.Time {
	return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC).Add(offset)
}

func memory(amount int64) pressure.Amounts {
	return pressure.Amounts{}.With(pressure.MemoryAvailable, amount)
}

func victim(uid string, holds int64) decide.Victim {
	return decide.Victim{
		Namespace: "shop", Name: uid, UID: uid, Expected: memory(holds), Accepted: at(0), Deadline: at(45 * time.Second),
	}
}

// own returns a victim of evictd's.
func own(uid string, holds int64) decide.Victim {
	v := victim(uid, holds)
	v.Signal = "memory.available"
	return v
}

func never(string) bool  { return false }
func always(string) bool { return true }

// reading returns a sample of one signal.
func reading(signal pressure.Signal, now time.Time, available int64) *pressure.Sample {
	s := &pressure.Sample{Time: now}
	s.Observations[signal] = pressure.Observation{State: pressure.Known, Available: available, Capacity: 1000}
	return s
}

// situation returns one of a signal, with what pods use where that was measured.
func situation(signal pressure.Signal, now time.Time, uses *decide.Uses) *decide.Situation {
	return &decide.Situation{Uses: uses, Met: now, Pressure: pressure.Pressure{
		Threshold: pressure.Threshold{Signal: signal}, Observed: pressure.Observation{Available: 1}, SampleTime: now,
	}}
}

// short is a pressure of a signal.
func short(signal pressure.Signal, now time.Time, hard bool) *pressure.Pressure {
	return &pressure.Pressure{Threshold: pressure.Threshold{Signal: signal, Hard: hard}, SampleTime: now}
}

// measured takes what a pod holds by a new measurement.
func measured(t *Tracker, uid string, holds pressure.Amounts) {
	t.Measured(situation(pressure.MemoryAvailable, at(0), &decide.Uses{ByUID: map[string]decide.Use{uid: {Known: true, Expected: holds}}}))
}
