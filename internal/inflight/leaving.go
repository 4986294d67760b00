package inflight

import (
	"maps"
	"slices"
	"time"

	"github.com/evictd/evictd/internal/nodepods"
	"github.com/evictd/evictd/pkg/pressure"
)

// UnlistedFor is how long a pod that the API server does not list is relied on. Its grace period is
// not known: the kubelet uses the one in its spec (pkg/kubelet/pod_workers.go,
// calculateEffectiveGracePeriod), and this is the default for a pod that sets none.
const UnlistedFor = time.Duration(nodepods.DefaultGraceSeconds)*time.Second + DeadlineMargin

// ObserveEnding takes the listed pods that are terminating or have finished. A pod that evictd did
// not evict is relied on from when it was first seen so: the API server's times are by another
// clock, and a pod that hangs on a volume has been seen so long before it counts, on a calm node.
func (t *Tracker) ObserveEnding(pods []*nodepods.Pod, now time.Time) {
	ends := func(pod *nodepods.Pod) bool { return pod.Terminating || pod.Finished }
	maps.DeleteFunc(t.ending, func(uid string, _ time.Time) bool {
		return !slices.ContainsFunc(pods, func(pod *nodepods.Pod) bool { return pod.UID == uid && ends(pod) })
	})
	for _, pod := range pods {
		if uid := pod.UID; ends(pod) && t.ending[uid].IsZero() {
			t.ending[uid] = now
		}
	}
}

// EndingSince returns since when a pod ends; now when it was not seen to end yet.
func (t *Tracker) EndingSince(uid string, now time.Time) time.Time {
	if since, known := t.ending[uid]; known {
		return since
	}
	return now
}

// Others are pods that may be in flight although evictd did not evict them, or are booked, at
// one moment.
type Others struct {
	Time time.Time
	// StallShare is what a pod must hold of memory, in bytes, for its end to matter to a stall. How
	// much of a stall its end removes is not known, and on a node with short jobs a pod ends at any
	// time. A tenant that creates and deletes small pods must not be able to hold evictions. 0
	// where it makes no difference.
	StallShare int64
	Pods       []Other
	// Lists reads the per-CPU lists: what is there already is read when a pod is first seen to
	// leave.
	Lists ReadLists
}

// Other is what is known of one of them.
type Other struct {
	// Namespace, Name and UID identify it; Namespace and Name are "" when Unlisted.
	Namespace, Name, UID string
	// Unlisted says that it is a cgroup that no listed pod has.
	Unlisted bool
	// Leaves says that a listed pod ends, or has ended and still holds something; GraceLeft is
	// the most that it may still take.
	Leaves    bool
	GraceLeft time.Duration
	// Expected is what its end should free, and Known that this was measured. Emptied says that
	// its cgroup is there and uses nothing.
	Expected       pressure.Amounts
	Known, Emptied bool
}

// ObserveUnlisted takes the cgroups that no listed pod has. If the pod is listed after all, the
// list counts.
func (t *Tracker) ObserveUnlisted(found []Other, listed func(uid string) bool, now time.Time) {
	maps.DeleteFunc(t.unlisted, func(uid string, _ time.Time) bool {
		if listed(uid) {
			t.lists.forget(uid)
		}
		return listed(uid)
	})
	maps.DeleteFunc(t.bookings, func(uid string, b Booking) bool { return b.Unlisted && listed(uid) })
	for i := range found {
		if uid := found[i].UID; !found[i].Emptied && t.unlisted[uid].IsZero() {
			t.unlisted[uid] = now
		}
	}
}

// Unlisted returns the booking of a cgroup that no listed pod has; false when it is no longer
// relied on: then it is nothing that evictd knows, and it has held the node once.
func (t *Tracker) Unlisted(uid string, expected pressure.Amounts, now time.Time) (Booking, bool) {
	since := t.unlisted[uid]
	b := Booking{UID: uid, Unlisted: true, Expected: expected, Accepted: since, Deadline: since.Add(UnlistedFor)}
	return b, !now.After(b.Deadline)
}

// ObserveOthers books the pods that are terminating, and updates what booked ones should still
// free. When that is not known, a new pod is not relied on, and a booked one keeps its last figure.
// A pod whose cgroup is empty is not relied on.
func (t *Tracker) ObserveOthers(seen *Others) {
	for i := range seen.Pods {
		o := &seen.Pods[i]
		b, leaves := t.otherBooking(o, seen.Time)
		switch {
		case !o.Known:
		case !leaves || o.Emptied:
			t.Expect(o.UID, o.Expected)
		default:
			t.addOther(b, seen)
		}
	}
}

// otherBooking returns the booking of a pod that evictd did not evict, and whether it is
// terminating.
func (t *Tracker) otherBooking(o *Other, now time.Time) (b Booking, leaves bool) {
	if o.Unlisted {
		return t.Unlisted(o.UID, o.Expected, now)
	}
	since := t.EndingSince(o.UID, now)
	return Booking{
		Namespace: o.Namespace, Name: o.Name, UID: o.UID, Expected: o.Expected,
		Accepted: since, Deadline: since.Add(o.GraceLeft + DeadlineMargin),
	}, o.Leaves
}

// addOther books a pod that evictd did not evict. A pod that holds less than the share is not
// expected to end any of a stall.
func (t *Tracker) addOther(b Booking, seen *Others) {
	if !t.Booked(b.UID) {
		t.lists.open(b.UID, seen.Time, b.Deadline, seen.Lists)
	}
	matters := false
	if seen.StallShare > 0 && !t.Own(b.UID) {
		matters = b.Expected.At(pressure.MemoryAvailable) >= seen.StallShare
		if !matters {
			b.Expected = b.Expected.With(pressure.MemoryStall, 0)
		}
	}
	t.Book(b)
	t.amend(b.UID, func(b *Booking) { b.MattersToStall = b.MattersToStall || matters })
}
