package agent

import (
	"testing"
	"time"

	"github.com/evictd/evictd/pkg/pressure"
)

// TestHealthFollowsTheTicks: a loop is ready from its first complete sample on, and while the last
// one was complete. A stale sample does not change that. The loop is alive until a tick takes too
// long, the first one included.
func TestHealthFollowsTheTicks(t *testing.T) {
	t.Parallel()
	began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	sample, unknown := &pressure.Sample{}, []pressure.Signal{pressure.MemoryAvailable}
	sample.Observations[pressure.MemoryAvailable].Err = errPlanted()
	h := &health{}
	if h.ready() == nil || h.alive(began) != nil {
		t.Error("ready or dead before it runs")
	}
	h.begin(began)
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
		if h.alive(now.Add(-stalledAfter)) != nil || n > 0 && h.alive(now) == nil {
			t.Errorf("step %d: alive before it: %v", n, h.alive(now))
		}
		if h.observe(now, sample, &step.verdict); (h.ready() == nil) != step.ready || h.alive(now.Add(stalledAfter)) != nil {
			t.Errorf("step %d: ready: %v, alive: %v; want ready %v", n, h.ready(), h.alive(now), step.ready)
		}
	}
}
