// Package rank answers one question: who goes first, and why?
//
// It is arithmetic on plain values. It reads no file, asks no server and knows
// no Kubernetes type, so a table, a recorded node or a fuzzer can drive it:
//
//	ranking := rank.Order(rank.Memory, pods, rules)
//	for _, c := range ranking.Candidates {
//		fmt.Println(c.Position, c.Pod.Name, c.Why())
//	}
//
// The order is the kubelet's (pkg/kubelet/eviction/helpers.go): a pod that uses
// more than it asked for goes first, then the lower priority, then the larger
// usage over request. evictd adds two keys so that the same facts in any order
// give the same ranking: the younger pod, then the UID. It differs from the
// kubelet in one rule on purpose: a pod without a usage sample is not a
// candidate, where the kubelet evicts it first.
package rank
