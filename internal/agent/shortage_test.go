package agent

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/pkg/evict"
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

// A slow leak crosses the line by 1 MiB. Six pods over their requests hold page cache only,
// which MemAvailable counts as available: their ends return 0.6 of the 21 MiB that are
// missing, and the leaker within its request stays.
func TestFaultSlowLeakTakesCacheHolders(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(1000)
		cacheHolders(n, 10)
		n.run("leaker", 900, 950)
		n.host = 50*mebi + 4*mebi/10
		watch(t, n, marginPolicy(), 5*time.Second)
		n.wantVictims(t, "leaker")
	})
}

// TestFaultCacheHoldersAreEvictedBeforeALeakerWithinItsRequest: the same with a leaker that is still within
// its request: the small pods wait with it, and it is evicted when memory runs out.
func TestFaultCacheHoldersAreEvictedBeforeALeakerWithinItsRequest(t *testing.T) {
	t.Parallel()
	for mode, want := range map[decide.WithinRequests][]string{
		decide.WithinRequestsUntilExhaustion: {"leaker"},
		decide.WithinRequestsNever:           {"leaker"},
	} {
		synctest.Test(t, func(t *testing.T) {
			n := newFakeNode(1000)
			cacheHolders(n, 50)
			n.run("leaker", 800, 950)
			n.host = 147*mebi + 1
			policy := marginPolicy()
			policy.WithinRequests = mode
			n.after(time.Minute, func() {
				if leaker := n.pods["uid-leaker"]; leaker != nil { // with never it was evicted at once
					leaker.memory = 830 * mebi
				}
			})
			a := newAgent(t, n, policy)
			n.after(30*time.Second, func() {
				var d decide.Decision // none is a fault too
				if len(n.decisions) > 0 {
					d = n.decisions[len(n.decisions)-1]
				}
				if mode == decide.WithinRequestsUntilExhaustion && (d.Hold != decide.HoldInsufficientReclaim || d.Detail != "each of the 6 candidates would return less than "+
					"limits.minimumReclaimShare (5%) of the 20.0Mi that are missing, and larger pods go first when memory.available runs out; "+
					"shop/leaker alone uses 800.0Mi and is protected: WithinRequests") {
					t.Errorf("hold %q, detail %q", d.Hold, d.Detail)
				}
			})
			runFor(t, a, 90*time.Second)
			n.wantVictims(t, want...)
		})
	}
}

// The line is regained, 15 MiB are missing to the target and the pods do not have them.
func TestFaultReclaimMarginTakesCacheHolders(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(1000)
		cacheHolders(n, 10)
		n.host = 955 * mebi
		n.after(3*time.Second, func() { n.host -= 10 * mebi })
		watch(t, n, marginPolicy(), time.Minute)
		n.wantVictims(t)
		if d := n.last(t); d.Hold != decide.HoldInsufficientReclaim || !strings.HasPrefix(d.Detail,
			"all 6 candidates together could return 614.4Ki of the 15.6Mi that are missing to 70.0Mi, limits.minimumReclaimShare is 5%: look at ") {
			t.Errorf("hold %q, detail %q", d.Hold, d.Detail)
		}
	})
}

// Inside the reclaim margin pods go one at a time, each after the last one's end: when the
// line is regained, and when it will be once what is in flight has ended.
func TestFaultReclaimMarginTakesSeveralAtOnce(t *testing.T) {
	t.Parallel()
	for name, setUp := range map[string]func(n *fakeNode){
		"the line is regained": func(n *fakeNode) {
			n.host = 951 * mebi // the six together cannot reach the line
			n.after(3*time.Second, func() { n.host -= 16 * mebi })
		},
		"the line is just crossed": func(n *fakeNode) {
			n.host = 938*mebi + 1
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n := newFakeNode(1000)
				n.ends = 10 * time.Second
				cacheHolders(n, 200)
				setUp(n)
				leaving := 0
				n.answer = func(r evict.Request) evict.Result {
					for _, p := range n.pods {
						if p.leaving != nil {
							leaving++
						}
					}
					return evict.Result{Outcome: taken(r)}
				}
				watch(t, n, marginPolicy(), 35*time.Second)
				if got := len(n.victims()); got != 4 || leaving != 0 {
					t.Errorf("%d pods were evicted in 35 s, 10 s each, and %d before the last had ended", got, leaving)
				}
				if d := n.last(t); d.Hold != decide.HoldReclaimInProgress || !strings.Contains(d.Detail, "one pod at a time is evicted, and shop/cached-3 has not ended") {
					t.Errorf("hold %q, detail %q", d.Hold, d.Detail)
				}
			})
		})
	}
}
