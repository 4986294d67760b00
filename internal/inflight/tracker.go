// Package inflight follows the victims: from a request whose outcome is not known, or an eviction
// that was accepted, to the memory or disk space that their ends give back. What others end is in
// flight too.
package inflight

import (
	"context"
	"slices"
	"time"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/nodepods"
	"github.com/evictd/evictd/internal/state"
	"github.com/evictd/evictd/pkg/pressure"
)

// Pods knows the node's pods.
type Pods interface {
	// Synced reports whether the list is complete.
	Synced() bool
	// List returns the pods; it sends no request.
	List() []*nodepods.Pod
}

// Measurer reads what the pods hold. It reports what it cannot read.
type Measurer interface {
	// Held returns what each pod's end should free of memory and tasks, by the UID of its cgroup; an
	// error means that pods are missing.
	Held(now time.Time) (map[string]pressure.Amounts, error)
	// Present reports whether a pod's cgroup is there; known is false where that could not be read.
	Present(uid string) (there, known bool)
	// LastOnDisk returns what the end of the pod with that cgroup should free of the disks by the last
	// measurement, however old; nothing where it was not measured.
	LastOnDisk(cgroupUID string) pressure.Amounts
	// RefreshDisk requests a measurement of the disks when the last one is as old as every, or older.
	RefreshDisk(ctx context.Context, now time.Time, pods []*nodepods.Pod, every time.Duration)
}

// Tracker follows the pods in flight. It belongs to one goroutine.
type Tracker struct {
	pods     Pods
	measurer Measurer
	dryRun   bool
	listed   map[string]*nodepods.Pod // by UID, once for a tick; nil before

	// victims are in any phase: those that terminate in the order in which they were accepted, those that are
	// gone in the order of their ends, and of those in doubt at most one for a resource.
	victims          []*decide.Victim
	lastEnd, unknown time.Time // as [State] has them
	// seen is what was available at the last reading, so that there is one from before a victim's
	// end.
	seen pressure.Amounts
	// kubelets are the pods of which it is known that the kubelet evicted them, by UID; nil
	// where no shortage lasts.
	kubelets map[string]bool

	reclaims  map[string]*reclaim // those of evictd's victims, by UID
	booksRead time.Time
}

// New returns a tracker of no pods.
func New(pods Pods, measurer Measurer) *Tracker {
	return &Tracker{pods: pods, measurer: measurer, reclaims: map[string]*reclaim{}}
}

// Adopt takes another policy. Memory may be measured in another way from then on, so that what was measured
// before does not count, and once evictd evicts for real no victim of a dry run is in flight.
func (t *Tracker) Adopt(dryRun bool) {
	for _, r := range t.reclaims {
		r.Last = nil
	}
	if t.dryRun = dryRun; !dryRun {
		t.drop(func(v *decide.Victim) bool { return v.DryRun })
	}
}

// Update begins a tick. It returns the victims that have ended, the one first that was accepted first, and the
// requests in doubt whose pods are terminating, or no longer listed, because of them: these stay in doubt until
// their outcome is reported. After the API server has given a request up, its pod's end has another cause,
// possibly days later. Nothing ends while the list of pods is not complete.
func (t *Tracker) Update(ctx context.Context, now time.Time) (ended []decide.Victim, carriedOut []*decide.InDoubt) {
	t.listed = nil
	if len(t.victims) == 0 || !t.pods.Synced() {
		return nil, nil
	}
	t.drop(func(v *decide.Victim) bool {
		switch {
		case v.Phase == decide.Requested && !t.stays(v.UID):
			if !v.Request.MayBeOurs(now) {
				return true
			}
			carriedOut = append(carriedOut, v.Request)
		case v.Phase == decide.Terminating && t.hasEnded(v, now):
			v.Ended = now
			ended = append(ended, *v)
			return true
		}
		return false
	})
	for i := range ended {
		t.end(ended[i], now)
	}
	t.simulate(ctx, now)
	return ended, carriedOut
}

// hasEnded reports whether the pod of a victim is not there any more. A would-be victim of a dry run
// would have ended at its deadline, and what admission moves away is not terminating when it is still
// there then.
func (t *Tracker) hasEnded(v *decide.Victim, now time.Time) bool {
	return (v.DryRun || v.Evacuating) && now.After(v.Deadline) || !t.Present(v.UID)
}

// end follows a victim that has ended to what it held. Others' are followed no longer.
func (t *Tracker) end(v decide.Victim, now time.Time) {
	own := v.Signal != ""
	if own {
		t.lastEnd = now
	}
	if own || v.DryRun {
		v.Phase = decide.Gone
		if !v.DryRun { // how much of a stall its end removes is not known
			v.Expected, v.Before = v.Expected.Without(pressure.MemoryStall), t.seen.Updated(v.Before).Updated(t.seen.OnDisk())
		}
		t.victims = append(t.victims, &v)
	}
}

// Accept takes a pod whose eviction was accepted, or that a request found deleted. A pod that is
// terminating already keeps what is known of it, so that seeing it again does not move its deadline,
// and only what it should still free is updated. But a victim that is really in flight replaces one
// that a dry run simulated, and an eviction with a response replaces what was observed of the pod
// before. There is no doubt about it any more, for any resource.
func (t *Tracker) Accept(v decide.Victim) {
	t.drop(func(other *decide.Victim) bool { return other.Phase == decide.Requested && other.UID == v.UID })
	before := t.find(decide.Terminating, v.UID)
	if before != nil && (!before.DryRun || v.DryRun) && (before.Signal != "" || v.Signal == "") {
		t.expect(before, v.Expected)
		return
	}
	t.drop(func(other *decide.Victim) bool { return other == before })
	v.Phase, v.Before = decide.Terminating, t.seen
	t.victims = append(t.victims, &v)
	t.follow(&v)
}

// expect takes what a victim should still free by a newer measurement. A process that has ended
// frees nothing any more, and one that keeps growing while its preStop hook runs frees more; signals
// that the measurement does not have keep their figures.
func (t *Tracker) expect(v *decide.Victim, expected pressure.Amounts) {
	for _, signal := range pressure.Signals() {
		seen, known := t.seen.Of(signal)
		if _, measured := expected.Of(signal); measured && known {
			v.Before = v.Before.With(signal, seen)
		}
	}
	v.Expected = v.Expected.Updated(expected)
}

// All returns the victims that terminate, the one first that was accepted first.
func (t *Tracker) All() []decide.Victim {
	var all []decide.Victim // a calm tick allocates nothing for it
	for _, v := range t.victims {
		if v.Phase == decide.Terminating {
			all = append(all, *v)
		}
	}
	return all
}

// Terminates reports whether a pod is a victim that terminates.
func (t *Tracker) Terminates(uid string) bool { return t.find(decide.Terminating, uid) != nil }

// find returns the victim in a phase; nil where the pod is none.
func (t *Tracker) find(phase decide.Phase, uid string) *decide.Victim {
	for _, v := range t.victims {
		if v.Phase == phase && v.UID == uid {
			return v
		}
	}
	return nil
}

// drop forgets victims.
func (t *Tracker) drop(what func(*decide.Victim) bool) {
	t.victims = slices.DeleteFunc(t.victims, what)
}

// Present reports whether a pod is there: the API server lists it and it has not finished, or its
// cgroup is there. A force-deleted pod that still runs still holds what it holds.
func (t *Tracker) Present(uid string) bool {
	if pod := t.pod(uid); pod != nil && !over(pod) { // what the kubelet evicted stays listed, and what a finalizer keeps
		return true
	}
	there, known := t.measurer.Present(uid)
	return there || !known // unknown does not mean ended
}

// pod returns what the API server lists of a pod; nil where it does not list it. It is called only where a
// pod is in flight: a calm tick makes no map.
func (t *Tracker) pod(uid string) *nodepods.Pod {
	if t.listed == nil {
		t.listed = map[string]*nodepods.Pod{}
		for _, pod := range t.pods.List() {
			t.listed[pod.UID] = pod
		}
	}
	return t.listed[uid]
}

// stays reports whether the API server lists a pod that is not being deleted.
func (t *Tracker) stays(uid string) bool {
	pod := t.pod(uid)
	return pod != nil && !pod.Terminating
}

// over reports whether a listed pod has ended, or is terminating and none of its containers
// runs: only its cgroup tells whether it still holds something then.
func over(pod *nodepods.Pod) bool {
	return pod.Finished || pod.Terminating && pod.Started && len(pod.RunningContainers) == 0
}

// leaves reports whether others end a pod that holds something: the API server says so, or it has
// finished and what it holds is still there. The latter is how the kubelet evicts: it
// deletes nothing, writes that the pod has finished once its containers have ended (Failed,
// or Succeeded where they ended with 0), and then takes down the volumes and the cgroup,
// which may still hold all of a memory emptyDir. A terminating pod that is kept by a finalizer
// alone holds nothing. The deletion of a mirror ends nothing: the kubelet makes it again, and
// the static pod runs on.
func (t *Tracker) leaves(pod *nodepods.Pod) bool {
	switch {
	case pod.Mirror && pod.Terminating:
		return false
	case !over(pod):
		return pod.Terminating
	}
	there, _ := t.measurer.Present(pod.CgroupUID)
	return there
}

// requestedKept is how long a request in doubt is restored: as long as an accepted eviction counts against a limit at
// most. A victim that terminates is restored always: the first tick checks whether its pod is still there.
const requestedKept = time.Hour

// State is what a [Tracker] knows that a restart must not forget.
type State struct {
	Victims []decide.Victim `json:"victims,omitempty"`
	// LastEnd is when a victim of evictd's last ended; the zero time when none has. The ends of other pods do not
	// count: on a node with short jobs pods end all the time. Unknown is when a process began that knew not all
	// of the time before, so that a victim of then may be in flight; the zero time when none did.
	LastEnd time.Time `json:"lastEnd,omitzero"`
	Unknown time.Time `json:"unknown,omitzero"`
}

// Export returns what the tracker knows. It shares nothing that is changed.
func (t *Tracker) Export() State {
	s := State{LastEnd: t.lastEnd, Unknown: t.unknown}
	for _, v := range t.victims {
		s.Victims = append(s.Victims, *v)
	}
	return s
}

// With returns the state with a request that is about to be sent, in place of the one in doubt about the same
// resource. It changes nothing of the state.
func (s State) With(open *decide.InDoubt) State {
	s.Victims = slices.DeleteFunc(slices.Clone(s.Victims), func(v decide.Victim) bool {
		return v.Phase == decide.Requested && decide.ResourceOf(&v.Request.Pressure) == decide.ResourceOf(&open.Pressure)
	})
	s.Victims = append(s.Victims, *open.Victim())
	return s
}

// Restore takes what was exported and has not expired, before anything else happens, and returns the
// requests of the process before that the API server has given up since: whether one was carried out is
// not known, and a victim may be in flight of which nothing is. The others are in doubt still, so that their
// pods are read before any other is evicted.
func (t *Tracker) Restore(s State, now time.Time) (givenUp []*decide.InDoubt) {
	t.lastEnd, t.unknown = state.Restored(s.LastEnd, now, 0), state.Restored(s.Unknown, now, 0)
	for _, v := range s.Victims {
		requested := v.Phase == decide.Requested
		if requested && (v.Request == nil || v.Request.Attempt.Entry.Pod == nil) {
			continue // not what evictd writes
		}
		accepted := state.Restored(v.Accepted, now, 0)
		v.Accepted, v.Deadline = accepted, accepted.Add(v.Deadline.Sub(v.Accepted))
		v.Ended, v.Escalated = state.Restored(v.Ended, now, 0), state.Restored(v.Escalated, now, 0)
		switch {
		case requested && now.Sub(accepted) >= requestedKept,
			returns(&v) && now.Sub(v.Ended) >= decide.CollectedWithin:
		case requested && now.Sub(accepted) > decide.DoubtLasts:
			t.unknown = now
			givenUp = append(givenUp, reopened(v.Request, now))
		case requested:
			t.victims = append(t.victims, reopened(v.Request, now).Victim())
		default:
			t.victims = append(t.victims, &v)
			t.follow(&v)
		}
	}
	return givenUp
}

// reopened returns a request as it was when the process before ended.
func reopened(kept *decide.InDoubt, now time.Time) *decide.InDoubt {
	r := *kept
	sent, p := state.Restored(r.Attempt.Result.Sent, now, 0), &r.Pressure
	r.First, r.Attempt.Result.Sent = state.Restored(r.First, now, 0), sent
	p.Since, p.SampleTime, p.Threshold.Quantity = state.Restored(p.Since, now, 0), sent, pressure.Absolute(p.Line)
	return &r
}
