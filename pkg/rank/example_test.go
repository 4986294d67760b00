package rank_test

import (
	"fmt"

	"github.com/evictd/evictd/pkg/rank"
)

// Of two pods that use more memory than their requests, the lower priority is evicted first, and a pod within its
// request after both. A pod without a usage sample is not a candidate.
func ExampleOrder() {
	const mi = 1 << 20
	pods := []rank.Pod{
		{Namespace: "shop", Name: "web", UID: "1", Owner: "ReplicaSet/web", Priority: 100, Request: 100 * mi, Usage: 900 * mi, Sampled: true},
		{Namespace: "shop", Name: "batch", UID: "2", Owner: "Job/batch", Request: 100 * mi, Usage: 300 * mi, Sampled: true},
		{Namespace: "shop", Name: "idle", UID: "4", Owner: "Job/idle", Request: 100 * mi, Usage: 50 * mi, Sampled: true},
		{Namespace: "shop", Name: "new", UID: "3", Owner: "Job/new"},
	}
	ranking := rank.Order(rank.Memory, pods, rank.Rules{})
	for _, c := range ranking.Candidates {
		fmt.Println(c.Position, c.Pod.Key(), "-", c.Why())
	}
	for _, p := range ranking.Protected {
		fmt.Println("-", p.Pod.Key(), "-", p.Why())
	}
	// Output:
	// 1 shop/batch - uses 300.0Mi, requests 100.0Mi, 200.0Mi over; priority 0; ahead of the next by: lower priority
	// 2 shop/web - uses 900.0Mi, requests 100.0Mi, 800.0Mi over; priority 100; ahead of the next by: exceeds its request
	// 3 shop/idle - uses 50.0Mi, requests 100.0Mi; priority 0
	// - shop/new - protected: NoUsageSample
}
