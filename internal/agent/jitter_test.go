package agent

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/pkg/pressure"
)

const softGrace = 30 * time.Second

// jitteryPolicy evicts below a tenth of the memory at once, and below a fifth after
// softGrace and up to 10 s more.
func jitteryPolicy() Policy {
	policy := hardPolicy()
	policy.Thresholds = append(policy.Thresholds, pressure.Threshold{
		Signal: pressure.MemoryAvailable, Quantity: pressure.Fraction(0.2), Grace: softGrace,
	})
	policy.Limits.SoftJitter = 10 * time.Second
	return policy
}

// evictedAt runs an agent that draws the given number, and returns when it evicted a pod.
func evictedAt(t *testing.T, n *fakeNode, policy Policy, drawn float64, during time.Duration) []time.Duration {
	t.Helper()
	a := newAgent(t, n, policy)
	a.cooldown = newCooldown(policy.Limits, drawn)
	started := time.Now()
	ctx, stop := context.WithTimeout(t.Context(), during)
	defer stop()
	if err := a.Run(ctx); err != nil {
		t.Error(err)
	}
	var at []time.Duration
	for _, d := range n.decisions {
		for i := range d.Attempts {
			at = append(at, d.Attempts[i].Result.Sent.Sub(started))
		}
	}
	return at
}

// about reports whether the times are those, or a moment later.
func about(want, got []time.Duration) bool {
	return slices.EqualFunc(want, got, func(w, g time.Duration) bool { return g >= w && g < w+250*time.Millisecond })
}

func TestSoftJitter(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		drawn  float64
		change func(n *fakeNode, p *Policy)
		want   []time.Duration
		holds  []decide.Hold
	}{
		{"half of it", 0.5, nil, []time.Duration{softGrace + 5*time.Second}, []decide.Hold{decide.HoldSoftJitter, decide.HoldReclaimInProgress}},
		{"nearly all of it", 0.999, nil, []time.Duration{softGrace + 9990*time.Millisecond}, []decide.Hold{decide.HoldSoftJitter, decide.HoldReclaimInProgress}},
		{"none of it", 0, nil, []time.Duration{softGrace}, []decide.Hold{decide.HoldReclaimInProgress}},
		{"switched off", 0.5, func(_ *fakeNode, p *Policy) { p.Limits.SoftJitter = 0 }, []time.Duration{softGrace}, []decide.Hold{decide.HoldReclaimInProgress}},
		{"only the first of a pressure waits", 0.5, func(n *fakeNode, _ *Policy) {
			n.pods["uid-first"].memory, n.pods["uid-second"].memory = 40*mebi, 30*mebi
			n.host += 240 * mebi
		}, []time.Duration{softGrace + 5*time.Second, softGrace + 5*time.Second}, []decide.Hold{decide.HoldSoftJitter, decide.HoldReclaimInProgress}},
		{"a hard threshold that is met meanwhile evicts at once", 0.5, func(n *fakeNode, _ *Policy) {
			n.after(softGrace+2*time.Second, func() { n.host += 60 * mebi })
		}, []time.Duration{softGrace + 2*time.Second}, []decide.Hold{decide.HoldSoftJitter, decide.HoldReclaimInProgress}},
		{"a hard threshold alone", 0.5, func(n *fakeNode, p *Policy) {
			n.host += 60 * mebi
			p.Thresholds = p.Thresholds[:1]
		}, []time.Duration{0}, []decide.Hold{decide.HoldReclaimInProgress}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n := newFakeNode(1000)
				n.stubborn = true
				n.run("first", 200, 0)
				n.run("second", 100, 0)
				n.host = 550 * mebi // 150 are available
				policy := jitteryPolicy()
				if test.change != nil {
					test.change(n, &policy)
				}
				if got := evictedAt(t, n, policy, test.drawn, softGrace+12*time.Second); !about(test.want, got) {
					t.Errorf("asked after %v, want %v", got, test.want)
				}
				if diff := cmp.Diff(test.holds, n.holds()); diff != "" {
					t.Errorf("holds (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// One incident waits once: a touch of the line draws no second time.
func TestFaultATouchOfTheLineDrawsAnotherJitter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(1000)
		n.run("first", 200, 0)
		n.host = 650 * mebi // 150 are available
		n.after(softGrace+2*time.Second, func() { n.host -= 200 * mebi })
		n.after(softGrace+3*time.Second, func() { n.host += 200 * mebi })
		policy := jitteryPolicy()
		policy.Transition = time.Minute
		want := []time.Duration{2*softGrace + 3*time.Second}
		if got := evictedAt(t, n, policy, 0.5, 2*softGrace+12*time.Second); !about(want, got) {
			t.Errorf("asked after %v, want %v", got, want)
		}
	})
}

// shippedPolicy has the thresholds and rules of the default configuration for 6000 MiB.
func shippedPolicy() Policy {
	policy := untilExhaustionPolicy()
	policy.Thresholds = []pressure.Threshold{
		{Signal: pressure.MemoryAvailable, Quantity: pressure.Absolute(300 * mebi), Hard: true},
		{Signal: pressure.MemoryAvailable, Quantity: pressure.Absolute(600 * mebi), Grace: 30 * time.Second},
	}
	policy.KubeletHard = []pressure.Threshold{{Signal: pressure.MemoryAvailable, Quantity: pressure.Absolute(100 * mebi), Hard: true}}
	return policy
}

// TestFaultASawtoothCutsNoGrace: a heap that fills and is collected is below the soft line for seconds at a time, and
// never near the hard one. A soft grace period is what it says, whatever a forecast says.
func TestFaultASawtoothCutsNoGrace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(6000)
		n.run("heap", 300, 0)
		n.host = 5000 * mebi
		heap := n.pods["uid-heap"]
		for at := range 1100 { // 220 MiB in 20 s, of which 20 MiB are below the soft line
			n.after(time.Duration(at)*100*time.Millisecond, func() { heap.memory = (200 + int64(at%200)*220/200) * mebi })
		}
		watch(t, n, shippedPolicy(), 110*time.Second)
		n.wantVictims(t)
	})
}

// The next pressure waits again.
func TestEachPressureHasItsJitter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(1000)
		n.run("first", 200, 0)
		n.run("second", 190, 0)
		n.host = 460 * mebi
		n.after(time.Minute, func() { n.host += 200 * mebi })
		got := evictedAt(t, n, jitteryPolicy(), 0.5, 2*time.Minute)
		if want := []time.Duration{softGrace + 5*time.Second, time.Minute + softGrace + 5*time.Second}; len(got) != 2 ||
			got[0] < want[0] || got[1] < want[1] || got[1] > want[1]+2*time.Second {
			t.Errorf("asked after %v, want %v", got, want)
		}
	})
}
