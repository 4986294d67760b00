package agent

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/pkg/pressure"
)

// dryPolicy is hardPolicy in dry run, with a transition period.
func dryPolicy() Policy {
	policy := hardPolicy()
	policy.DryRun, policy.Transition = true, time.Minute
	return policy
}

// TestFaultDryRunNamesAPodAgain: one incident of a dry run names each pod once that it would have
// evicted, and ends when it would have ended. Its last line names the pods that would have been
// evicted.
func TestFaultDryRunNamesAPodAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(1000)
		n.run("greedy", 500, 100)
		n.run("next", 300, 100)
		n.host = 150 * mebi
		// The leak continues in the second pod: the end of the first would not have helped for
		// long.
		n.after(80*time.Second, func() { n.pods["uid-next"].memory += 480 * mebi })
		watch(t, n, dryPolicy(), 20*time.Minute)
		n.wantVictims(t, "greedy", "next")
		if len(n.incidents) != 1 {
			t.Fatalf("incidents %+v, want one that has ended", n.incidents)
		}
		var named []string
		for _, v := range n.incidents[0].Victims {
			named = append(named, v.Pod)
		}
		if diff := cmp.Diff([]string{"shop/greedy", "shop/next"}, named); diff != "" {
			t.Errorf("would-be victims (-want +got):\n%s", diff)
		}
	})
}

// TestDryRunFollowsWhatAWouldBeVictimHolds: a simulated victim that grows after its simulated end
// counts with what it holds now: the rest of the node is not shorter of memory because of it.
func TestDryRunFollowsWhatAWouldBeVictimHolds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(1000)
		n.run("greedy", 500, 100)
		n.run("next", 100, 50)
		n.host = 350 * mebi
		n.after(time.Minute, func() { n.pods["uid-greedy"].memory += 48 * mebi })
		watch(t, n, dryPolicy(), 10*time.Minute)
		n.wantVictims(t, "greedy")
	})
}

// When the would-be victim really ends, what it held is really available and counts no more.
func TestDryRunLetsGoOfAPodThatReallyEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(1000)
		n.run("greedy", 500, 100)
		n.run("next", 100, 50)
		n.host = 350 * mebi
		n.after(time.Minute, func() { n.terminate("uid-greedy") })
		n.after(2*time.Minute, func() { n.host += 490 * mebi }) // short again, by what greedy held
		watch(t, n, dryPolicy(), 3*time.Minute)
		n.wantVictims(t, "greedy", "next")
	})
}

// The end of the dry run ends what it simulated.
func TestDryRunsReclaimEndsWithTheDryRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(1000)
		n.run("greedy", 950, 100)
		a := newAgent(t, n, dryPolicy())
		wet := dryPolicy()
		wet.DryRun = false
		time.AfterFunc(2*time.Minute, func() { a.Reload(t.Context(), enforced(wet), n) })
		runFor(t, a, 2*time.Minute+time.Second)
		dry := make([]bool, 0, 2)
		for _, r := range n.evictions {
			dry = append(dry, r.DryRun)
		}
		if !slices.Equal(dry, []bool{true, false}) {
			t.Errorf("dry runs %v, want one and then the real thing", dry)
		}
	})
}

// A would-be victim's disk space counts as reclaimed too.
func TestFaultDryRunNamesAPodAgainForADisk(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := &spaceNode{signal: pressure.NodeFSAvailable, available: steps(map[time.Duration]int64{0: 90})}
		n.freed = func(map[string]time.Duration) int64 { return 0 }
		n.prepare()
		policy := n.policy()
		policy.DryRun, policy.Transition = true, time.Minute
		policy.Pacing.Min = 100 * time.Millisecond
		runFor(t, n.agent(t, policy), 20*time.Minute)
		n.wantVictims(t, "large")
		if len(n.incidents) != 1 {
			t.Errorf("incidents %+v, want one that has ended", n.incidents)
		}
	})
}

// A restart in the middle of a dry run's incident names no pod again.
func TestFaultDryRunNamesAPodAgainAfterARestart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n, f := newFakeNode(1000), &file{t: t}
		n.run("greedy", 500, 100)
		n.run("next", 100, 50)
		n.host = 350 * mebi
		live(t, n, f, dryPolicy(), time.Minute)
		live(t, n, f, dryPolicy(), 10*time.Minute)
		n.wantVictims(t, "greedy")
	})
}

// dryStall runs a dry run for a stall on a node that stalls by so much, see stall.
func dryStall(t *testing.T, n *fakeNode, share *float64, during time.Duration, grow func()) {
	t.Helper()
	policy := stallPolicy()
	policy.DryRun, policy.Transition = true, time.Minute
	stallBy(t, n, policy, share, during, grow)
}

// TestFaultDryRunHidesAStall: how much of a stall a simulated victim's end would have removed is
// not known. It is waited for like a real one, for as long and a window more. Then a stall that
// continues names the next pod, once each, and is not reported as over.
func TestFaultDryRunHidesAStall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(10_000)
		n.run("greedy", 500, 100)
		n.run("next", 400, 100)
		n.run("last", 300, 100)
		share := 0.3
		dryStall(t, n, &share, 10*time.Minute, func() {})
		n.wantVictims(t, "greedy", "next", "last")
		if len(n.incidents) != 0 {
			t.Errorf("incidents %+v have ended, want none while the node stalls", n.incidents)
		}
		var named []time.Time
		for i := range n.decisions {
			if n.decisions[i].Verb == decide.Acted {
				named = append(named, n.decisions[i].Time)
			}
		}
		const relied = 30*time.Second + decide.DeadlineMargin + stallWindow
		for i := 1; i < len(named); i++ {
			if after := named[i].Sub(named[i-1]); after < relied || after > relied+2*time.Second {
				t.Errorf("the next pod was named after %v, want %v: the victim's time and a window", after, relied)
			}
		}
	})
}

// TestFaultWouldBeVictimsOwnStallNamesAnother: a simulated victim that counts as ended does not
// stall on behalf of another pod: what remains are pods in limits of their own, and evicting
// another pod would not help those.
func TestFaultWouldBeVictimsOwnStallNamesAnother(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(10_000)
		n.run("greedy", 500, 100)
		n.run("next", 400, 100)
		n.run("bound", 300, 300)
		share := 0.3
		dryStall(t, n, &share, 5*time.Minute, func() {
			n.pods["uid-greedy"].waited += 50 * time.Millisecond
			n.pods["uid-bound"].limitHits += 5
		})
		n.wantVictims(t, "greedy")
		if d := n.last(t); d.Hold != decide.HoldStalledWithinOwnLimits {
			t.Errorf("hold %q (%s), want %q", d.Hold, d.Detail, decide.HoldStalledWithinOwnLimits)
		}
	})
}

// A stall that ends while a would-be victim is waited for names no other pod.
func TestDryRunsStallThatEndsNamesOnePod(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(10_000)
		n.run("greedy", 500, 100)
		n.run("next", 400, 100)
		share := 0.3
		n.after(30*time.Second, func() { share = 0 })
		dryStall(t, n, &share, 10*time.Minute, func() {})
		n.wantVictims(t, "greedy")
		if len(n.incidents) != 1 || len(n.incidents[0].Victims) != 1 {
			t.Errorf("incidents %+v, want one that has ended, with one victim", n.incidents)
		}
	})
}
