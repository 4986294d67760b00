package decide

import (
	"time"

	"github.com/evictd/evictd/internal/nodepods"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
	"github.com/evictd/evictd/pkg/usage"
)

// Use is what one pod uses of the resource in question. The zero value is not known.
type Use struct {
	// Value is in the signal's unit; it means nothing unless Known is set.
	Value int64
	Known bool
	// Expected is what its end should free.
	Expected pressure.Amounts
	// Emptied says that the cgroup is there and uses nothing: the use is not known, and what
	// is expected is.
	Emptied bool
	// WorkingSet and Reclaim are both figures of the pod's memory, in bytes; 0 for a disk.
	WorkingSet, Reclaim int64
}

// Uses is what the pods use of the resource in question.
type Uses struct {
	// ByUID has the pods' use by the UID of the API server. A pod that is missing was not read.
	ByUID map[string]Use
	// Unlisted are the cgroups that no pod of the list has, by their UID; nil for a disk.
	Unlisted map[string]Use
	// Disk is what was measured of a disk; Incomplete are the pods that were not measured
	// completely, by name. Finished pods are in neither: they are not measured, and not evicted.
	Disk       []usage.DiskUse
	Incomplete []Unmeasured
	// Breakdown says where what is used of a disk is; nil where that is not known.
	Breakdown Breakdown
	// Requested is when the measurement of a disk was; the zero time for other signals, and where there
	// was none. Err says why nothing is known; nil where something is.
	Requested time.Time
	Err       error
	// Unread are the pods whose cgroups could not be read, and Outdated those whose figures of a disk
	// are from before the pressure.
	Unread   Unread
	Outdated Outdated
}

// reclaim is [ReclaimOf] what a pod's end should free, by its UID; not known for a pod that was not read.
func (u *Uses) reclaim(signal pressure.Signal, uid string) Reclaim {
	return ReclaimOf(signal, u.ByUID[uid].Expected)
}

// Facts joins what the API server and the node know of each pod, in the order of the pods.
func (u *Uses) Facts(signal pressure.Signal, pods []*nodepods.Pod, self nodepods.Self) []rank.Pod {
	facts := make([]rank.Pod, 0, len(pods))
	for _, pod := range pods {
		f, used := pod.Facts(RankedBy(signal), self), u.ByUID[pod.UID]
		f.Usage, f.Sampled = used.Value, used.Known
		f.WorkingSet, f.Reclaim = used.WorkingSet, used.Reclaim
		facts = append(facts, f)
	}
	return facts
}
