package decide

import (
	"slices"
	"time"

	"github.com/evictd/evictd/internal/nodepods"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
	"github.com/evictd/evictd/pkg/usage"
)

// Cooldown answers what must wait, until when and why. Its answers change nothing, and are false where
// nothing waits.
type Cooldown interface {
	// Node returns why no pod of the node may be evicted, and Owner why a pod may not because of others of its controller.
	Node(now time.Time) (Wait, bool)
	Owner(s *Situation, pod *rank.Pod) (Wait, bool)
	// Server returns why no request may be sent.
	Server(now time.Time) (Wait, bool)
	// Jitter returns why the first soft eviction of an incident waits.
	Jitter(s *Situation) (Wait, bool)
	// Bypass returns until when no PDB may be bypassed.
	Bypass(now time.Time) (Wait, bool)
	// Pod returns why a pod may not be evicted, whatever the limits. Where a PDB may be bypassed its
	// refusal alone keeps no pod. Also where nothing waits, Wait.PDB says which PDB selects the pod, as far
	// as is known.
	Pod(s *Situation, pod *rank.Pod, bypassPDB bool) (Wait, bool)
}

// Wait says why something waits. The zero value means nothing.
type Wait struct {
	// Until is when this reason ends if nothing else happens. Another reason may hold after it.
	Until time.Time
	// Detail is one sentence for people; "" where there is nothing to add.
	Detail string
	// PDB is the name of the PodDisruptionBudget that refused a pod; "" where none did, the answer did
	// not name it, or that was long ago.
	PDB string
}

// Situation is all that is known when a pressure is dealt with.
type Situation struct {
	// Pressure is what the node is short of, by Sample.
	Pressure pressure.Pressure
	Sample   *pressure.Sample
	// Incident is the ID of the shortage; "" where there is none.
	Incident string
	// Began is when it began; the zero time where there is none.
	Began time.Time
	// Met is when the threshold was first met in that incident: what others are ending counts from then.
	Met    time.Time
	Policy *Policy

	// Pods are those of the node. Unsynced says that the list is not complete, Stale why it
	// cannot be relied on any more; nil where it can.
	Pods     []*nodepods.Pod
	Unsynced bool
	Stale    error

	// InFlight are the pods in flight, the oldest first. LastEnd is when one ended last from
	// whose end on the signal must be read anew.
	InFlight []Victim
	LastEnd  time.Time
	// WouldBe reports whether a pod counts as ended in a dry run, and Simulated how much of what is
	// available counts as reclaimed from such pods, in the signal's unit.
	WouldBe   func(uid string) bool
	Simulated int64
	// InDoubt is the request for the same resource whose outcome is not known, nil where there
	// is none. Others are those for other resources whose pods may be terminating because of them.
	InDoubt *InDoubt
	Others  []InDoubt

	Cooldown Cooldown
	// UnknownUntil is until when a victim may be in flight of which nothing is known; long ago where all
	// is known.
	UnknownUntil time.Time
	// KubeletLine is where the kubelet evicts at once, see [Policy.KubeletLine]; 0 where that is not known.
	KubeletLine int64

	// Stalls is what is known of the pods' stalls, and Images of the images that no pod uses.
	Stalls Stalls
	Images Images
	// Uses is what the pods use; nil while they have not been measured for this decision.
	Uses *Uses
}

// newPlan begins the record of the decision, and how it would be carried out.
func (s *Situation) newPlan() Plan {
	return Plan{Taint: s.Policy.TaintNode, Decision: Decision{
		Incident: s.Incident, Time: s.Pressure.SampleTime, Pressure: s.Pressure, DryRun: s.Policy.DryRun, DryRunWhy: s.Policy.DryRunWhy,
		Simulated: s.Simulated, InFlight: s.InFlight,
	}}
}

// Facts joins what the API server and the node report of each pod that has not finished; there may be thousands
// that have. A pod that is in flight, or counts as ended, is terminating: the watch may not report it yet, or never.
// One whose request is in doubt is not.
func (s *Situation) Facts() []rank.Pod {
	gone := make(map[string]bool, len(s.InFlight))
	for i := range s.InFlight {
		gone[s.InFlight[i].UID] = s.InFlight[i].Phase != Requested
	}
	pods := slices.DeleteFunc(slices.Clone(s.Pods), func(pod *nodepods.Pod) bool { return pod.Finished })
	facts := s.Uses.Facts(s.Pressure.Threshold.Signal, pods)
	for i := range facts {
		if uid := facts[i].UID; gone[uid] || s.WouldBe != nil && s.WouldBe(uid) {
			facts[i].Terminating = true
		}
	}
	return facts
}

// Use is what one pod uses of the resource in question. The zero value is not known.
type Use struct {
	// Value is in the signal's unit; it means nothing unless Known is set.
	Value int64
	Known bool
	// Grown is by how much it has grown in ten seconds, by a reading of 5 to 60 seconds before. Where there is none it is
	// all of it, and of a disk nothing.
	Grown int64
	// Expected is what its end should free: nothing where the cgroup is there and uses nothing, of which the use is not
	// known.
	Expected pressure.Amounts
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
	// completely, by name, and why. Finished pods are in neither: they are not measured, and not evicted.
	Disk       []usage.DiskUse
	Incomplete []string
	// Breakdown says where what is used of a disk is; nil where that is not known.
	Breakdown Breakdown
	// Requested is when the measurement of a disk was; the zero time for other signals, and where there
	// was none. Err says why nothing is known; nil where something is.
	Requested time.Time
	Err       error
	// Unread are the pods whose cgroups could not be read, and Outdated those whose figures of a disk
	// are from before the pressure, by name, and how old these are.
	Unread   Unread
	Outdated []string
}

// Facts joins what the API server and the node know of each pod, in the order of the pods.
func (u *Uses) Facts(signal pressure.Signal, pods []*nodepods.Pod) []rank.Pod {
	facts := make([]rank.Pod, 0, len(pods))
	for _, pod := range pods {
		f, used := pod.Facts(RankedBy(signal)), u.ByUID[pod.UID]
		f.Usage, f.Sampled = used.Value, used.Known
		f.WorkingSet, f.Reclaim = used.WorkingSet, used.Reclaim
		facts = append(facts, f)
	}
	return facts
}

// Resource is what a node is short of, so that signals about the same thing share one
// incident. The zero value is the node's memory.
type Resource struct {
	// Kind is what is counted.
	Kind pressure.Kind `json:"kind"`
	// Device is the filesystem's device number for space and inodes, as stat(2) tells it; 0
	// for memory and PIDs, and of a filesystem that could not be read.
	Device uint64 `json:"device,omitempty"`
}

// ResourceOf returns what a node under that pressure is short of.
func ResourceOf(p *pressure.Pressure) Resource {
	return Resource{Kind: p.Threshold.Signal.Kind(), Device: p.Observed.Device}
}

// RankedBy returns what pods are ranked by when the signal is under pressure.
func RankedBy(s pressure.Signal) rank.Resource {
	return [...]rank.Resource{
		pressure.MemoryKind: rank.Memory,
		pressure.PIDKind:    rank.PIDs,
		pressure.SpaceKind:  rank.Disk,
		pressure.InodeKind:  rank.Inodes,
	}[s.Kind()]
}
