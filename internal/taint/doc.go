// Package taint keeps taints of evictd's own on its node while the node is under
// pressure, so that the scheduler places nothing there that would have to go next.
//
// The kubelet's taints, and everybody else's, are never touched: what is written names
// the version of the node that was read, and a node that has changed meanwhile is read
// again. Nothing is sent while nothing is to be changed; a taint that was left by a
// process that was killed is found at the start. See
// docs/adr/0027-a-missing-taint-stops-no-eviction.md.
package taint
