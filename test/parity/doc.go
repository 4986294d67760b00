// Package parity proves that evictd's order is the kubelet's: it drives the
// kubelet's own eviction manager (k8s.io/kubernetes/pkg/kubelet/eviction) and
// evictd's judge and ranking on the same generated node states and compares, at
// every reading of the node, whether somebody must go, for which signal, who, and
// the whole order.
//
// Where evictd differs on purpose the difference has a name ([Differences]), a
// test of its own and a line in docs/ranking.md. A difference is no licence: the
// kubelet must do exactly what evictd does with that one rule replaced, and all
// that the rule does not touch is compared as ever.
//
// It is a module of its own, because the kubelet needs hundreds of modules that
// evictd does not.
package parity
