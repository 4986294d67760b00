package agent

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
)

// The loop and the executor live in the time of their clock, which is years behind here: ticks
// come when it is stepped, and what is recorded has its times.
func TestTheLoopLivesByItsClock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(1000)
		n.run("greedy", 960, 10)
		began := time.Date(1999, 12, 31, 23, 59, 59, 0, time.UTC)
		n.mayBeStale = true // the clock stands still
		clock := clocktesting.NewFakeClock(began)
		a := newAgent(t, n, hardPolicy(), func(o *Options) { o.Clock = clock })
		ctx, stop := context.WithCancel(t.Context())
		go func() { _ = a.Run(ctx) }()
		time.Sleep(time.Hour)
		if n.samples != 0 {
			t.Errorf("%d samples while the clock stood still", n.samples)
		}
		clock.Step(2 * time.Second)
		time.Sleep(time.Second) // a reading takes a moment
		stop()
		time.Sleep(time.Second)
		n.wantVictims(t, "greedy")
		if d := n.last(t); !d.Time.Equal(began.Add(2 * time.Second)) {
			t.Errorf("decided at %v, want 2 s after %v", d.Time, began)
		}
	})
}
