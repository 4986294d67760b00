// Package node is a real node with evictd on it, for the end-to-end tests and the
// demo: the cluster of test/cluster, the shipped manifest, and pods that use
// memory on demand.
package node
