package agent

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/evictd/evictd/pkg/evict"
)

// A pod that admission begins to move away counts as one that others end, for 75 s: no other is asked
// meanwhile. Then the next one has its turn; in a dry run what the first holds counts as reclaimed.
func TestFaultAMigrationThatHasBegunIsReliedOn(t *testing.T) {
	t.Parallel()
	for _, dryRun := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			n, policy := newFakeNode(1000), hardPolicy()
			n.run("first", 500, 100)
			n.run("second", 450, 100)
			n.answer = func(evict.Request) evict.Result {
				return evict.Result{Outcome: evict.Evacuating, Message: "Eviction triggered evacuation of VMI"}
			}
			policy.DryRun = dryRun
			a := newAgent(t, n, policy)
			runFor(t, a, 70*time.Second)
			n.wantVictims(t, "first")
			if way := a.victims.All(); len(way) != 1 || way[0].Name != "first" || way[0].Signal != "" {
				t.Errorf("in flight: %+v", way)
			}
			runFor(t, a, 20*time.Second)
			if dryRun {
				n.wantVictims(t, "first")
			} else {
				n.wantVictims(t, "first", "second")
			}
		})
	}
}

// A webhook that cannot be reached keeps its pod for seconds, and nothing else.
func TestFaultAWebhookThatIsAwayForAMoment(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n, began := newFakeNode(1000), time.Now()
		n.run("greedy", 950, 100)
		n.answer = func(r evict.Request) evict.Result {
			if time.Since(began) < 3*time.Second {
				return evict.Result{Outcome: evict.Throttled, PodAlone: true, Message: "failed calling webhook"}
			}
			return evict.Result{Outcome: taken(r)}
		}
		runFor(t, newAgent(t, n, hardPolicy()), 10*time.Second)
		if d := n.acted(t); d.Time.Sub(began) > 8*time.Second {
			t.Errorf("evicted %v after the webhook was back", d.Time.Sub(began)-3*time.Second)
		}
	})
}
