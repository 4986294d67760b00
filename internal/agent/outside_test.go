package agent

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evictd/evictd/internal/decide"
)

// fakeHost answers after a time, as one that reads in the background.
type fakeHost struct {
	takes time.Duration
	asked map[string]time.Time // by incident
	reads int
}

func (h *fakeHost) MemoryUsed(string, time.Time) decide.Breakdown {
	return decide.Breakdown{"Anonymous": 7}
}

func (h *fakeHost) Processes(of string, now time.Time) ([]decide.Process, bool) {
	at, known := h.asked[of]
	if !known || now.Sub(at) >= SayAgainAfter {
		at = now
		h.asked[of] = at
		h.reads++
	}
	if now.Sub(at) < h.takes {
		return nil, true
	}
	return []decide.Process{{Name: "leak", Unit: "leak.service", RSS: 750 * mebi}}, false
}

// A hold that no eviction would end names what uses the memory outside the pods, and is
// recorded when that has been read.
func TestHoldNamesProcessesOutsideThePods(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := hostOnNode(0)
		host := &fakeHost{takes: 2 * time.Second, asked: map[string]time.Time{}}
		a := newAgent(t, n, untilExhaustionPolicy(), func(o *Options) { o.Host = host })
		began := time.Now()
		runFor(t, a, time.Minute)
		n.wantVictims(t)
		if len(n.decisions) != 2 || host.reads != len(n.decisions) {
			t.Fatalf("%d decisions, %d readings; want 2, one each", len(n.decisions), host.reads)
		}
		want := []decide.Process{{Name: "leak", Unit: "leak.service", RSS: 750 * mebi}}
		for i := range n.decisions {
			d := &n.decisions[i]
			if diff := cmp.Diff(want, d.Outside); diff != "" || d.Hold != decide.HoldWithinRequests || d.Breakdown["Anonymous"] != 7 {
				t.Errorf("%s, breakdown %v; outside (-want +got):\n%s", d.Hold, d.Breakdown, diff)
			}
		}
		if after := n.decisions[0].Time.Sub(began); after < 7*time.Second || after > 9*time.Second {
			t.Errorf("recorded after %v; want 2 s after the pressure began at 5 s", after)
		}
	})
}

// TestEvictionDoesNotWaitForTheHost: reading the host does not delay an eviction, which names
// nothing outside the pods.
func TestEvictionDoesNotWaitForTheHost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(1000)
		n.run("greedy", 960, 10)
		host := &fakeHost{takes: time.Hour, asked: map[string]time.Time{}}
		a := newAgent(t, n, hardPolicy(), func(o *Options) { o.Host = host })
		runFor(t, a, time.Second)
		n.wantVictims(t, "greedy")
		if d := n.decisions[0]; d.Outside != nil || host.reads != 0 || d.Breakdown["Anonymous"] != 7 {
			t.Errorf("outside %v, breakdown %v, %d readings", d.Outside, d.Breakdown, host.reads)
		}
	})
}
