// Package rank answers one question: which pod is evicted first, and why?
//
// It is arithmetic on plain values. It reads no file, calls no server and knows no
// Kubernetes type, so a table, a recorded node or a fuzzer can drive it:
//
//	ranking := rank.Order(rank.Memory, pods, rules)
//	for _, c := range ranking.Candidates {
//		fmt.Println(c.Position, c.Pod.Name, c.Why())
//	}
//
// The order is the kubelet's (pkg/kubelet/eviction/helpers.go): first a pod that uses more
// than its request, then the lower priority, then the larger usage over request. Evictd
// adds two keys so that the ranking does not depend on the order of the input: the younger
// pod, then the UID. It deliberately differs from the kubelet in one rule: a pod without a
// usage sample is not a candidate, where the kubelet evicts it first.
package rank
