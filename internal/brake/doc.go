// Package brake keeps all nodes together from evicting more than so many pods of one
// workload at once. Each workload has so many slots; a slot is a Lease in evictd's own
// namespace, taken before a pod is asked for and given back when the pod has ended.
//
// A slot has one holder whatever the races: a Lease of a name is made once, and changed or
// removed only in the version that was read. A slot whose holder has crashed is free when
// nothing has changed about its Lease for as long as the Lease says, by the clock of
// whoever looks: no two nodes' clocks are compared, as in client-go's leader election. A
// node that is there renews the Lease of a victim that takes longer.
//
// Asking for a slot is two requests, or one where none is free: the Leases of the workload
// are listed, and a free one is written.
//
// A Lease is removed when its slot is given back, so that a calm cluster has none.
package brake
