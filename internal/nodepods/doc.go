// Package nodepods answers: which pods are on this node, and what do they request?
//
// It keeps one watch, limited to the node by a field selector, and never lists again while the
// watch lives. Each pod becomes a [Pod] where it enters: a small value that cannot hold an
// environment, a command line, or the name of an image or a secret. No other package reads the API
// server's pods.
//
// Requests are computed as the kubelet computes them for its own ranking (k8s.io/kubernetes
// pkg/api/v1/resource/helpers.go), so that both agree on which pod exceeds which request. The store
// may be behind the API server. An eviction therefore names the UID of the pod that was ranked, and
// [Pods.Age] says how long ago the watch last delivered anything.
package nodepods
