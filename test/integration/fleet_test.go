package integration

import (
	"testing"
	"time"

	"github.com/evictd/evictd/pkg/evict"
	"github.com/evictd/evictd/test/cluster"
	"github.com/evictd/evictd/test/internal/fleet"
)

// Twenty agents under hard pressure at once: no budget is violated and no workload has more
// terminating pods than permits. `make bench-permits` does the same with two hundred agents.
func TestManyAgentsViolateNoBudgetAndKeepToThePermits(t *testing.T) {
	t.Parallel()
	const agents, held, victims = 20, 2, 2
	result, err := fleet.Run(t.Context(), fleet.Options{
		Config: unlimited(), Nodes: agents, Workloads: 3, PodsPerNode: 4, Victims: victims,
		Unavailable: 5, Permits: held, Patience: cluster.Patiently(3 * time.Minute),
	})
	if result == nil {
		t.Fatal(err)
	}
	t.Logf("%+v", result)
	if err != nil {
		t.Error(err)
	}
	if result.Violated != 0 {
		t.Errorf("budgets were violated %d times: %v", result.Violated, result.Budgets)
	}
	if result.Outcomes[evict.Evicted] != agents*victims {
		t.Errorf("%d evictions were accepted, want %d", result.Outcomes[evict.Evicted], agents*victims)
	}
	if result.MostPermits < 1 || result.MostPermits > held {
		t.Errorf("%d permits of one workload were held at once, want 1 to %d", result.MostPermits, held)
	}
	if result.WithoutPermit == 0 && result.MostLeaving > held {
		t.Errorf("%d pods of one workload were in flight at once, want %d at most", result.MostLeaving, held)
	}
}
