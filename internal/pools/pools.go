// Package pools says of which pools a pod needs an eviction permit: its workload's, and the
// cluster's. Package permits hands them out.
package pools

import "github.com/evictd/evictd/pkg/rank"

// Cluster is the name of the pool of all pods. The names of workloads contain a slash.
const Cluster = "cluster"

// Limits are the sizes of the pools (evictionPermits). The zero value sets no limit.
type Limits struct {
	// PerWorkload is how many pods of one workload may be in flight at once, on all nodes together;
	// 0 sets no limit.
	PerWorkload int
	// PerCluster is how many pods may be in flight at once, on all nodes together; 0 sets no limit.
	PerCluster int
}

// Pool is a number of permits.
type Pool struct {
	// Name is the workload's, for example "shop/Deployment/web", or [Cluster].
	Name string
	// Size is how many permits there are, at least 1.
	Size int
}

// Any reports whether there is any limit.
func (l Limits) Any() bool { return l != Limits{} }

// Of returns the pools of which a pod needs a permit each; none where there is no limit for it.
func (l Limits) Of(pod *rank.Pod) []Pool {
	var all []Pool
	if l.PerWorkload > 0 {
		if workload := WorkloadOf(pod); workload != "" {
			all = append(all, Pool{workload, l.PerWorkload})
		}
	}
	if l.PerCluster > 0 {
		all = append(all, Pool{Cluster, l.PerCluster})
	}
	return all
}
