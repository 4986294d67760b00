package agent

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/evictd/evictd/pkg/pressure"
)

// list is a fakeNode with a list of pods in some state.
type list struct {
	*fakeNode

	synced bool
	stale  error
}

func (l *list) Synced() bool { return l.synced }
func (l *list) Stale() error { return l.stale }

// TestReadyFollowsTheList: a complete reading is not enough while the node's pods are not known.
func TestReadyFollowsTheList(t *testing.T) {
	t.Parallel()
	pods := &list{fakeNode: newFakeNode(1000)}
	a := newAgent(t, pods.fakeNode, hardPolicy(), func(o *Options) { o.Pods = pods })
	a.progress.set(time.Now(), errors.New("no sample has been read yet"))
	a.ticked(time.Now(), &pressure.Sample{}, &pressure.Verdict{})
	if err := a.Ready(); err == nil || err.Error() != "the node's pods are not known yet" {
		t.Errorf("no list yet: %v", err)
	}
	if pods.synced = true; a.Ready() != nil {
		t.Errorf("with the list: %v", a.Ready())
	}
	pods.stale = errors.New("planted")
	if err := a.Ready(); err == nil || err.Error() != "no pod is evicted: planted" {
		t.Errorf("with a dead watch: %v", err)
	}
}

// TestHealthFollowsTheTicks: a loop is ready from its first complete sample on, and while the last
// one was complete. A stale sample does not change that. The loop is alive until a tick takes too
// long, the first one included.
func TestHealthFollowsTheTicks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		sample, unknown := &pressure.Sample{}, []pressure.Signal{pressure.MemoryAvailable}
		sample.Observations[pressure.MemoryAvailable].Err = errors.New("planted")
		a := newAgent(t, newFakeNode(1000), hardPolicy())
		if a.Ready() == nil || a.Alive(time.Now()) != nil {
			t.Error("ready or dead before it runs")
		}
		a.progress.set(time.Now(), errors.New("no sample has been read yet"))
		for n, step := range []struct {
			verdict pressure.Verdict
			ready   bool
		}{
			{pressure.Verdict{Stale: true}, false},
			{pressure.Verdict{}, true},
			{pressure.Verdict{Stale: true}, true},
			{pressure.Verdict{Unknown: unknown}, false},
			{pressure.Verdict{Stale: true}, false},
			{pressure.Verdict{}, true},
		} {
			now := time.Now()
			if a.Alive(now.Add(-StalledAfter)) != nil || n > 0 && a.Alive(now) == nil {
				t.Errorf("step %d: alive before it: %v", n, a.Alive(now))
			}
			if a.ticked(now, sample, &step.verdict); (a.Ready() == nil) != step.ready || a.Alive(now.Add(StalledAfter)) != nil {
				t.Errorf("step %d: ready: %v, alive: %v; want ready %v", n, a.Ready(), a.Alive(now), step.ready)
			}
			time.Sleep(time.Minute)
		}
	})
}
