package victims

import (
	"slices"
	"time"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/indoubt"
	"github.com/evictd/evictd/internal/inflight"
	"github.com/evictd/evictd/internal/measure"
	"github.com/evictd/evictd/internal/nodepods"
	"github.com/evictd/evictd/pkg/pressure"
)

// Pods knows the node's pods.
type Pods interface {
	// Synced reports whether the list is complete.
	Synced() bool
	// List returns the pods; it sends no request.
	List() []*nodepods.Pod
}

// Options are what a Follower looks at. All must be set.
type Options struct {
	Pods     Pods
	Cgroups  measure.Cgroups
	Measurer *measure.Measurer
	// Fault is told of each source that could not be read.
	Fault func(source string, err error)
	// SentLast reports whether the plan that is being carried out has sent its last request for a
	// pod: its report has the outcome.
	SentLast func(uid string) bool
}

// Follower follows the pods in flight. It belongs to one goroutine.
type Follower struct {
	*inflight.Tracker

	// InDoubt are the requests whose outcome is not known.
	InDoubt indoubt.Tracker

	options Options
	memory  pressure.MemoryDefinition
	listed  map[string]bool // what [Follower.isListed] needs, once for a tick; nil before
}

// New returns a follower of no pods.
func New(options Options) *Follower { return &Follower{Tracker: inflight.New(), options: options} }

// Adopt changes how memory.available is measured. What was measured before does not count.
func (f *Follower) Adopt(memory pressure.MemoryDefinition) {
	if f.memory != memory {
		f.RestartBooks()
	}
	f.memory = memory
}

// Synced reports whether the list of pods is complete.
func (f *Follower) Synced() bool { return f.options.Pods.Synced() }

// Begin begins a tick: it ends the bookings of victims that have ended, and returns them. Nothing
// ends while the list of pods is not complete.
func (f *Follower) Begin(now time.Time) []decide.Victim {
	f.listed = nil
	if !f.Synced() {
		return nil
	}
	return f.Observe(now, f.Present)
}

// Present reports whether a pod is there: the API server lists it and it has not finished, or its
// cgroup is there. A force-deleted pod that still runs still holds what it holds.
func (f *Follower) Present(uid string) bool {
	if f.isListed(uid) {
		return true
	}
	there, err := f.options.Cgroups.Present(uid)
	if err != nil {
		f.options.Fault(measure.SourceUsage, err)
		return true // unknown does not mean ended
	}
	return there
}

// isListed reports whether the API server lists a pod that has not ended. It is called only where a
// pod is in flight: a calm tick makes no map.
func (f *Follower) isListed(uid string) bool {
	if f.listed == nil {
		pods := f.options.Pods.List()
		f.listed = make(map[string]bool, len(pods))
		for _, pod := range pods {
			if !over(pod) { // what the kubelet evicted stays listed, and what a finalizer keeps
				f.listed[pod.UID] = true
			}
		}
	}
	return f.listed[uid]
}

// cgroupGone reports whether a pod's cgroup is known to be missing.
func (f *Follower) cgroupGone(uid string) bool {
	there, err := f.options.Cgroups.Present(uid)
	return err == nil && !there
}

// is reports whether the list has a pod for which a condition is true. It is called for the few
// victims for which that is not known otherwise.
func (f *Follower) is(uid string, what func(*nodepods.Pod) bool) bool {
	return slices.ContainsFunc(f.options.Pods.List(), func(pod *nodepods.Pod) bool { return pod.UID == uid && what(pod) })
}

// stays reports whether the API server lists a pod that is not being deleted.
func (f *Follower) stays(uid string) bool {
	return f.is(uid, func(pod *nodepods.Pod) bool { return !pod.Terminating })
}

// ReconcileInDoubt returns the requests in doubt of which the watch tells the outcome: their pods are terminating, or
// not listed any more.
func (f *Follower) ReconcileInDoubt(now time.Time) []*decide.InDoubt {
	if !f.Synced() {
		return nil
	}
	return f.InDoubt.Reconcile(now, f.stays, f.Booked)
}
