package health

import (
	"errors"
	"testing"
	"time"

	"github.com/evictd/evictd/pkg/pressure"
)

// list is the state of a list of pods.
type list struct {
	synced bool
	stale  error
}

func (l *list) Synced() bool { return l.synced }
func (l *list) Stale() error { return l.stale }

// TestReadyFollowsTheList: a complete reading is not enough while the node's pods are not known.
func TestReadyFollowsTheList(t *testing.T) {
	t.Parallel()
	pods, now := &list{}, time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	h := New(pods)
	h.Begin(now)
	h.Observe(now, &pressure.Sample{}, &pressure.Verdict{})
	if err := h.Ready(); err == nil || err.Error() != "the node's pods are not known yet" {
		t.Errorf("no list yet: %v", err)
	}
	if pods.synced = true; h.Ready() != nil {
		t.Errorf("with the list: %v", h.Ready())
	}
	pods.stale = errors.New("planted")
	if err := h.Ready(); err == nil || err.Error() != "no pod is evicted: planted" {
		t.Errorf("with a dead watch: %v", err)
	}
}

// TestHealthFollowsTheTicks: a loop is ready from its first complete sample on, and while the last
// one was complete. A stale sample does not change that. The loop is alive until a tick takes too
// long, the first one included.
func TestHealthFollowsTheTicks(t *testing.T) {
	t.Parallel()
	began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	sample, unknown := &pressure.Sample{}, []pressure.Signal{pressure.MemoryAvailable}
	sample.Observations[pressure.MemoryAvailable].Err = errors.New("planted")
	h := New(&list{synced: true})
	if h.Ready() == nil || h.Alive(began) != nil {
		t.Error("ready or dead before it runs")
	}
	h.Begin(began)
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
		now := began.Add(time.Duration(n) * time.Minute)
		if h.Alive(now.Add(-StalledAfter)) != nil || n > 0 && h.Alive(now) == nil {
			t.Errorf("step %d: alive before it: %v", n, h.Alive(now))
		}
		if h.Observe(now, sample, &step.verdict); (h.Ready() == nil) != step.ready || h.Alive(now.Add(StalledAfter)) != nil {
			t.Errorf("step %d: ready: %v, alive: %v; want ready %v", n, h.Ready(), h.Alive(now), step.ready)
		}
	}
}
