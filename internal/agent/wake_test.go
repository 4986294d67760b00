package agent

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evictd/evictd/pkg/pressure"
)

// sampledAt notes when each sample was taken, as the time since the start, and calls
// a function within the first.
type sampledAt struct {
	*fakeNode
	start time.Time
	first func()
	at    []time.Duration
}

func (s *sampledAt) Sample(now time.Time) pressure.Sample {
	if s.at = append(s.at, now.Sub(s.start)); len(s.at) == 1 && s.first != nil {
		s.first()
	}
	return s.fakeNode.Sample(now)
}

// wakes runs an agent on a calm node with that channel for a while and returns when
// it has taken samples. Pacing alone takes one a second.
func wakes(t *testing.T, wake <-chan struct{}, during time.Duration, first func()) []time.Duration {
	t.Helper()
	n := newFakeNode(64 << 10) // far from the threshold even for the fastest allocator
	sampler := &sampledAt{fakeNode: n, start: time.Now(), first: first}
	a := newAgent(t, n, hardPolicy())
	a.options.Sampler, a.options.Wake = sampler, wake
	ctx, stop := context.WithTimeout(t.Context(), during)
	defer stop()
	if err := a.Run(ctx); err != nil {
		t.Errorf("running: %v", err)
	}
	synctest.Wait()
	return sampler.at
}

func TestAWakeTakesASampleAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		wake := make(chan struct{}, 1)
		time.AfterFunc(300*time.Millisecond, func() { wake <- struct{}{} })
		got := wakes(t, wake, 1500*time.Millisecond, nil)
		want := []time.Duration{0, 300 * time.Millisecond, 1300*time.Millisecond + time.Microsecond}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("samples (-want +got):\n%s", diff)
		}
	})
}

func TestAWakeDuringATickIsNotLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		wake := make(chan struct{}, 1)
		got := wakes(t, wake, time.Second, func() { wake <- struct{}{} })
		// The next one comes as soon as pacing allows any, not after its second.
		want := []time.Duration{0, hardPolicy().Pacing.Min + time.Microsecond}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("samples (-want +got):\n%s", diff)
		}
	})
}

// A wake-up that never stops must neither spin, which here ends the test's patience
// because time stands still, nor outrun pacing's minimum.
func TestAStormOfWakesKeepsTheMinimumInterval(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		storm := make(chan struct{})
		close(storm)
		got := wakes(t, storm, time.Second, nil)
		if len(got) < 99 || len(got) > 101 {
			t.Errorf("%d samples in 1 s, at %v; want one every 10 ms", len(got), got)
		}
		for i := 1; i < len(got); i++ {
			if rest := got[i] - got[i-1]; rest < hardPolicy().Pacing.Min {
				t.Fatalf("sample %d came %v after the one before", i, rest)
			}
		}
	})
}
