// Package node is a real node with evictd on it, for the end-to-end tests and the
// benchmarks: the cluster of test/cluster, the shipped manifest, and pods that use
// memory on demand.
package node
