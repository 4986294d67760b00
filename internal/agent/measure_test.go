package agent

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/evictd/evictd/pkg/pressure"
)

// Page cache moves no pod ahead in the ranking for MemAvailable.
func TestFaultRankingCountsCacheThatIsAvailable(t *testing.T) {
	t.Parallel()
	for definition, want := range map[pressure.MemoryDefinition]string{pressure.Kernel: "leaker", pressure.WorkingSet: "cached"} {
		synctest.Test(t, func(t *testing.T) {
			n := newFakeNode(1000)
			n.stubborn = true
			n.run("cached", 12, 8)
			n.pods["uid-cached"].cache = 600 * mebi
			n.run("leaker", 300, 100)
			n.host, n.countsCache = 649*mebi, definition == pressure.WorkingSet
			if n.countsCache {
				n.host -= 600 * mebi
			}
			policy := helpingPolicy()
			policy.Thresholds[0].Quantity = pressure.Absolute(50 * mebi)
			policy.MemoryAvailable = definition
			watch(t, n, policy, time.Second)
			n.wantVictims(t, want)
			d := n.last(t)
			for _, e := range append(d.Ranking.Candidates, d.Ranking.Protected...) {
				if e.Pod.Name == "cached" && (e.Pod.Reclaim != 12*mebi || e.Pod.WorkingSet != 612*mebi) {
					t.Errorf("both figures of its memory: %d and %d", e.Pod.Reclaim, e.Pod.WorkingSet)
				}
			}
		})
	}
}
