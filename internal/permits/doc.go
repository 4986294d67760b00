// Package permits is a semaphore for all nodes together: it limits how many pods of a pool
// are in flight at once. A permit is a Lease in evictd's own namespace, which is acquired before a
// pod is evicted and released when the pod has ended.
//
// A permit has one holder whatever the races: a Lease of a name is created once, and changed or
// deleted only in the version that was read. A permit whose holder has crashed is free when its
// Lease has not changed for as long as the Lease says, by the clock of the node that reads it. As
// in client-go's leader election, the clocks of two nodes are never compared. A node that is
// running renews the Lease of a victim that takes longer.
//
// Acquiring a permit is two requests, or one when none is free: the Leases of the pool are
// listed, and a free one is written.
//
// A Lease is deleted when its permit is released, so that a calm cluster has none. See
// docs/adr/0028-eviction-permits-are-leases.md.
package permits
