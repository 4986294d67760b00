// Package taint keeps taints of evictd's own on its node while the node is under pressure, so that
// the scheduler places no pod there that would have to be evicted next.
//
// The taints of the kubelet and of other clients are never touched: a write names the version of
// the node that was read, and a node that has changed meanwhile is read again. Nothing is sent
// while nothing is to be changed. A taint of a process that was killed is found at the start. See
// docs/adr/0027-a-missing-taint-stops-no-eviction.md.
package taint
