// Package parity proves that evictd's order is the kubelet's. It runs the kubelet's own
// eviction manager (k8s.io/kubernetes/pkg/kubelet/eviction) and evictd's judge and ranking
// on the same generated node states. At every reading of the node it compares whether a pod
// must be evicted, for which signal, which pod, and the whole order.
//
// Where evictd deliberately differs, the difference has a name ([Differences]), a test and a
// line in docs/ranking.md. A difference does not skip the comparison: the kubelet must do
// exactly what evictd does with that one rule replaced, and everything that the rule does
// not affect is compared as usual.
//
// The kubelet of evictd simulate is compared with the same manager, look by look.
//
// It is a separate module, because the kubelet needs hundreds of modules that evictd does
// not.
package parity
