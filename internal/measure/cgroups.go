package measure

import (
	"errors"
	"slices"
	"time"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/nodepods"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/usage"
)

// amountOf measures a pod for a signal, in the signal's unit. The ranking, what an end should free
// and what is booked all use it, so that none of them counts what the signal does not.
// Stalls are not measured for each pod, but as memory.available.
func amountOf(signal pressure.Signal, definition pressure.MemoryDefinition, u *usage.Pod) (amount int64, known bool) {
	switch {
	case signal.Kind() == pressure.PIDKind:
		return u.Tasks, u.TasksKnown
	case signal.CountsWorkingSet(definition):
		return u.WorkingSet, true
	default:
		return u.Reclaim(), true
	}
}

// Expected returns what the end of the pod whose cgroup it is should free, in the measure of each signal.
func Expected(u *usage.Pod, definition pressure.MemoryDefinition) pressure.Amounts {
	var frees pressure.Amounts
	for _, signal := range pressure.Signals() {
		if signal.OnDisk() {
			continue
		}
		if amount, known := amountOf(signal, definition, u); known {
			frees = frees.With(signal, amount)
		}
	}
	// How much of a stall a pod's end removes is not known: while a pod that holds memory is in
	// flight, its end is waited for.
	if frees.At(pressure.MemoryStall) > 0 {
		frees = frees.With(pressure.MemoryStall, WholeStall)
	}
	return frees
}

// WholeStall is more than any window can hold, in microseconds.
const WholeStall = int64(time.Hour / time.Microsecond)

// CgroupUse returns what a pod's cgroup says for a signal.
func CgroupUse(signal pressure.Signal, definition pressure.MemoryDefinition, u *usage.Pod) decide.Use {
	amount, known := amountOf(signal, definition, u)
	return decide.Use{
		Value: amount, Known: known && !u.Unused, Grown: amount, Expected: Expected(u, definition),
		WorkingSet: u.WorkingSet, Reclaim: u.Reclaim(),
	}
}

// CgroupUses joins what was read with the pods.
func CgroupUses(signal pressure.Signal, definition pressure.MemoryDefinition, pods []*nodepods.Pod, read []usage.Pod) *decide.Uses {
	byCgroup := make(map[string]*usage.Pod, len(read))
	for i := range read {
		byCgroup[read[i].UID] = &read[i]
	}
	uses := &decide.Uses{ByUID: make(map[string]decide.Use, len(pods)), Unlisted: map[string]decide.Use{}}
	for _, pod := range pods {
		if u := byCgroup[pod.CgroupUID]; u != nil {
			uses.ByUID[pod.UID] = CgroupUse(signal, definition, u)
			delete(byCgroup, pod.CgroupUID)
		}
	}
	for uid, u := range byCgroup {
		uses.Unlisted[uid] = CgroupUse(signal, definition, u)
	}
	return uses
}

// What stands in for a pod whose cgroup cannot be read, and how long one is waited for, is
// docs/adr/0018.

// datedPod is what a pod used at a time.
type datedPod struct {
	pod usage.Pod
	at  time.Time
}

// bridge appends the last readings of the pods that could not be read, and returns the UIDs of
// the cgroups that have none.
func (m *Measurer) bridge(read []usage.Pod, fault error, pods []*nodepods.Pod) (bridged []usage.Pod, missing []string) {
	var unread *usage.UnreadError
	if !errors.As(fault, &unread) {
		return read, nil
	}
	for _, uid := range m.failed(read, unread, pods) {
		if last, known := m.lastRead[uid]; known {
			read = append(read, last.pod)
		} else {
			missing = append(missing, uid)
		}
	}
	return read, missing
}

// sameCharge is by how many bytes what is charged to a pod may differ from when it was read.
const sameCharge = 1 << 20

// standIns returns what stands in for the pods that cannot exceed their requests, as all that is charged to them is within
// these: their last readings, where so much was charged then. Where pods within their requests may go all are read.
func (m *Measurer) standIns(s *decide.Situation) usage.StandIn {
	p := &s.Pressure
	if p.Threshold.Signal.Kind() != pressure.MemoryKind || s.Policy.WithinRequests == decide.WithinRequestsNever || decide.RunsOut(p, s.KubeletLine) {
		return nil
	}
	requests := make(map[string]int64, len(s.Pods))
	for _, pod := range s.Pods {
		requests[pod.CgroupUID] = pod.MemoryRequest
	}
	return func(uid string, used int64) (usage.Pod, bool) {
		last, read := m.lastRead[uid]
		change, young := used-last.pod.Used, p.SampleTime.Sub(last.at) < decide.ReadingMaxAge
		return last.pod, read && young && used <= requests[uid] && max(change, -change) <= sameCharge
	}
}

// failed returns the UIDs of the cgroups that, as far as is known, exist and could not be read.
func (m *Measurer) failed(read []usage.Pod, unread *usage.UnreadError, pods []*nodepods.Pod) []string {
	asked := slices.Clone(unread.Pods)
	if unread.ListingFailed {
		for _, pod := range pods {
			uid := pod.CgroupUID
			wasRead := slices.ContainsFunc(read, func(p usage.Pod) bool { return p.UID == uid })
			if !wasRead && !slices.Contains(asked, uid) {
				asked = append(asked, uid)
			}
		}
	}
	return slices.DeleteFunc(asked, func(uid string) bool {
		there, err := m.options.Cgroups.Present(uid)
		return err == nil && !there
	})
}

// unreadTime is for how long pods of an incident could not be read. The zero value was always read.
type unreadTime struct {
	incident string        // its ID
	spent    time.Duration // up to the last reading
	from     time.Time     // when that was, where pods were missing in it; zero where none were
}

// unread returns the pods of which nothing is known, by the UIDs of their cgroups, and for how long there
// have been such pods.
func (m *Measurer) unread(s *decide.Situation, missing []string) decide.Unread {
	w, now := &m.unreadTimes[s.Pressure.Threshold.Signal.Kind()], s.Pressure.SampleTime
	if w.incident != s.Incident {
		*w = unreadTime{incident: s.Incident}
	}
	if !w.from.IsZero() {
		w.spent += min(now.Sub(w.from), decide.UnreadWait/2) // no decision may have asked in between
	}
	w.from = time.Time{}
	unread := decide.Unread{Waited: w.spent}
	for _, uid := range missing {
		w.from = now
		unread.Pods = append(unread.Pods, nameOf(uid, s.Pods))
	}
	return unread
}

// nameOf returns namespace and name of the pod whose cgroup it is, else the UID in
// the cgroup's name.
func nameOf(uid string, pods []*nodepods.Pod) string {
	for _, pod := range pods {
		if pod.CgroupUID == uid {
			return pod.Key()
		}
	}
	return uid
}
