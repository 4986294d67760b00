package snapshot

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/evictd/evictd/pkg/evict"
	"github.com/evictd/evictd/pkg/pressure"
)

// Validate says what is wrong with the values, taken together: of the first fault, in one
// sentence, where it is, what is wrong and what to do; nil when nothing is.
func (s *NodeSnapshot) Validate() error {
	v := validation{places: map[string]string{}}
	v.refusef(s.NodeName == "", "nodeName: is empty; save the snapshot again")
	v.pods(s)
	v.signals(s)
	v.entries(s)
	return v.fault
}

// validation keeps the first fault, and the place of each key that must be there once.
type validation struct {
	fault  error
	places map[string]string
}

func (v *validation) refusef(bad bool, format string, args ...any) {
	if bad && v.fault == nil {
		v.fault = fmt.Errorf(format, args...)
	}
}

// once refuses a key that an earlier entry of the list has too.
func (v *validation) once(list string, i int, field, key string) {
	here, id := at(list, i)+"."+field, list+"."+field+" "+key
	first, twice := v.places[id]
	v.refusef(twice, "%s: %q is that of %s too; keep one", here, key, first)
	v.places[id] = here
}

// entry makes sure that an entry is the only one of a pod that is in the snapshot.
func (v *validation) entry(list string, i int, uid string, known map[string]bool) {
	v.refusef(!known[uid], "%s.uid: no pod of the snapshot has %q; remove the entry, or add the pod", at(list, i), uid)
	v.once(list, i, "uid", uid)
}

// mostUsed bounds what all pods use together, 1 EiB, so that no sum of their figures overflows.
const mostUsed = 1 << 60

// figures refuses what is negative or above most, in the order of the names; nil is not known.
func (v *validation) figures(path string, most int64, all map[string]*int64) {
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if n := all[name]; n != nil {
			v.refusef(*n < 0, "%s.%s: %d is negative; save the snapshot again", path, name, *n)
			v.refusef(*n > most, "%s.%s: %d is more than the %d that a pod of this node can use; save the snapshot again", path, name, *n, most)
		}
	}
}

func (v *validation) pods(s *NodeSnapshot) {
	for i, pod := range s.Pods {
		v.refusef(pod.Name == "" || pod.Namespace == "" || pod.UID == "", "%s: name, namespace and uid must be there; save the snapshot again", at("pods", i))
		v.once("pods", i, "uid", pod.UID)
		v.once("pods", i, "name", pod.Key())
		v.figures(at("pods", i), math.MaxInt64, map[string]*int64{
			"gracePeriodSeconds": &pod.GraceSeconds, "deletionGracePeriodSeconds": pod.DeletionGraceSeconds,
			"memoryRequest": &pod.MemoryRequest, "ephemeralStorageRequest": &pod.StorageRequest,
		})
	}
}

func (v *validation) signals(s *NodeSnapshot) {
	for i, signal := range s.Signals {
		here := at("signals", i)
		_, err := pressure.ParseSignal(signal.Name)
		v.refusef(err != nil, "%s.name: %w", here, err)
		v.once("signals", i, "name", signal.Name)
		switch signal.State {
		case pressure.Known.String():
			v.refusef(signal.Available == nil || signal.Capacity == nil, "%s: is Known and lacks available or capacity; write state: Unknown, or both", here)
		case pressure.Unknown.String(), pressure.Absent.String():
			v.refusef(signal.Available != nil || signal.Capacity != nil, "%s: is %s and has figures; write state: Known, or none", here, signal.State)
		default:
			v.refusef(true, "%s.state: %q is none of Known, Unknown and Absent; write one of them", here, signal.State)
		}
		if n := signal.Capacity; n != nil { // a working set may be above its limit, so available may be below 0
			v.refusef(*n < 0, "%s.capacity: %d is negative; save the snapshot again", here, *n)
		}
	}
}

// entries checks the lists that have an entry for a pod.
func (v *validation) entries(s *NodeSnapshot) {
	pods, cgroups := s.uids()
	for i, u := range s.Usage {
		v.entry("usage", i, u.UID, cgroups)
		v.figures(at("usage", i), mostUsed/int64(len(s.Usage)), map[string]*int64{
			"workingSet": &u.WorkingSet, "anonymous": &u.Anonymous, "shared": &u.Shared, "kernel": u.Kernel, "tasks": u.Tasks,
		})
	}
	for i, d := range s.Disk {
		v.entry("disk", i, d.UID, pods)
		v.figures(at("disk", i), mostUsed/int64(len(s.Disk)), map[string]*int64{
			"nodefs.bytes": d.NodeFS.Bytes, "nodefs.inodes": d.NodeFS.Inodes,
			"imagefs.bytes": d.ImageFS.Bytes, "imagefs.inodes": d.ImageFS.Inodes,
		})
	}
	v.refusef(s.Disk != nil && s.DiskUnmeasured != "", "diskUnmeasured: disk is there too; keep one")
	for i, b := range s.Budgets {
		v.entry("budgets", i, b.UID, pods)
		v.refusef(b.Outcome.Accepted() && b.Outcome != evict.WouldEvict || !slices.Contains(evict.Outcomes(), b.Outcome),
			"%s.outcome: %s is no answer to a dry run; save the snapshot again", at("budgets", i), shown(b.Outcome))
	}
}
