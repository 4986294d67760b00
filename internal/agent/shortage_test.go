package agent

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/pkg/pressure"
)

// cacheHolders puts six pods on the node. Each uses so many hundredths of a MiB and 300 MiB of
// active page cache, and requests nothing.
func cacheHolders(n *fakeNode, hundredths int64) {
	for i := range 6 {
		name := fmt.Sprintf("cached-%d", i)
		n.run(name, 0, 0)
		n.pods["uid-"+name].memory = hundredths * mebi / 100
		n.pods["uid-"+name].cache = 300 * mebi
	}
}

// marginPolicy wants 50 MiB, and 70 once it acts.
func marginPolicy() Policy {
	policy := helpingPolicy()
	policy.Thresholds[0].Quantity = pressure.Absolute(50 * mebi)
	policy.Thresholds[0].MinReclaim = pressure.Absolute(20 * mebi)
	return policy
}

// A slow leak crosses the line by 2 MiB. Six pods over their requests hold page cache only, which
// MemAvailable counts as available: together they do not reach the line, and go neither before nor after
// the leaker within its request, which goes near exhaustion only.
func TestFaultSlowLeakTakesCacheHolders(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(1000)
		cacheHolders(n, 10)
		n.run("leaker", 900, 950)
		n.host = 51*mebi + 4*mebi/10
		policy := marginPolicy()
		policy.WithinRequests = decide.WithinRequestsUntilExhaustion
		watch(t, n, policy, time.Minute)
		n.wantVictims(t)
		if d := n.last(t); d.Hold != decide.HoldInsufficientReclaim || !strings.HasSuffix(d.Detail, "; shop/leaker alone uses 900.0Mi and is protected: WithinRequests") {
			t.Errorf("hold %q, detail %q", d.Hold, d.Detail)
		}
	})
}

// TestFaultReclaimMarginTakesPods: a leak is evicted and returns less than the written minimum reclaim. The
// line is reached by what is in flight, and then by what is available: no other pod goes for the rest, however
// long that takes.
func TestFaultReclaimMarginTakesPods(t *testing.T) {
	t.Parallel()
	for name, again := range map[string]int64{"once": 0, "and the line is missed again": 30} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n := newFakeNode(1000)
				n.ends = 10 * time.Second
				cacheHolders(n, 500)
				n.run("leak", 100, 0)
				n.host = 830 * mebi // 40 of 50 are left
				policy := marginPolicy()
				policy.Thresholds[0].MinReclaim = pressure.Absolute(500 * mebi)
				want := []string{"leak"}
				if again > 0 {
					n.after(time.Minute, func() { n.host += 91 * mebi }) // by 1 MiB
					want = append(want, "cached-0")
				}
				watch(t, n, policy, 3*time.Minute)
				n.wantVictims(t, want...)
				if d := n.last(t); d.Hold != decide.HoldRecovered || !strings.HasPrefix(d.Detail, "the threshold is reached, and no pod is evicted for the ") {
					t.Errorf("hold %q, detail %q", d.Hold, d.Detail)
				}
			})
		})
	}
}
