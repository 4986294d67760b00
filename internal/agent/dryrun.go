package agent

import (
	"context"
	"time"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/incident"
	"github.com/evictd/evictd/internal/inflight"
	"github.com/evictd/evictd/internal/measure"
	"github.com/evictd/evictd/internal/nodepods"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/usage"
)

// A dry run relieves nothing. So that one shortage does not name the same pod again and again,
// what a would-be victim holds counts as reclaimed once its grace period is over, as long as the
// pod lives on: it is read and added to each sample. So a dry run names the pods that evictd
// would have taken, once each, and its incidents end when they would have ended.
//
// How much of a stall an end would have ended is not known. A would-be victim is waited for as a
// real one, by its booking and for a window after that; a stall that is still there then names
// the next pod.
//
// It is still a dry run: the replacement that a controller would have made, on this node or
// another, is not known and not counted.

// simulatedDiskEvery is how often disks are measured for would-be victims that hold part of
// one. The kubelet computes these figures once a minute.
const simulatedDiskEvery = time.Minute

// simulated are the would-be victims that have ended in a dry run and live on. The zero value
// has none.
type simulated struct {
	pods map[string]*wouldBe // by UID
}

// wouldBe is one of them.
type wouldBe struct {
	// cgroup is the UID in the name of its cgroup: a static pod has another.
	cgroup string
	// held is what its end would give back, by signal, in the signal's unit; a figure that
	// cannot be read stays as it was.
	held pressure.Amounts
}

// has reports whether the pod counts as gone.
func (s *simulated) has(uid string) bool { return s.pods[uid] != nil }

// amount returns how much of the signal counts as reclaimed: what is known to come back, see
// [decide.ReclaimOf].
func (s *simulated) amount(signal pressure.Signal) int64 {
	all := int64(0)
	for _, w := range s.pods {
		if r := decide.ReclaimOf(signal, w.held); r.Known {
			all += r.Amount
		}
	}
	return all
}

// addTo returns the sample as it would be without the would-be victims: the same one where there
// are none. What is not known stays so.
func (s *simulated) addTo(seen *pressure.Sample) *pressure.Sample {
	if len(s.pods) == 0 {
		return seen
	}
	without := *seen
	sample := &without
	for _, signal := range pressure.Signals() {
		seen := &sample.Observations[signal]
		if seen.State == pressure.Known {
			seen.Available = min(max(seen.Available, seen.Capacity), seen.Available+s.amount(signal))
		}
	}
	return sample
}

// add takes the bookings of a dry run that have ended: by then their pods would have gone.
func (s *simulated) add(ended []inflight.Booking) {
	for i := range ended {
		b := &ended[i]
		if !b.DryRun || s.has(b.UID) {
			continue
		}
		if s.pods == nil {
			s.pods = map[string]*wouldBe{}
		}
		s.pods[b.UID] = &wouldBe{cgroup: b.UID, held: b.Expected}
	}
}

// restore takes the would-be victims of open incidents that no booking relies on any more. What
// they hold is read before the first sample.
func (s *simulated) restore(open []incident.Incident, booked func(uid string) bool) {
	for i := range open {
		for _, v := range open[i].Victims {
			if v.DryRun && !booked(v.UID) {
				s.add([]inflight.Booking{{UID: v.UID, DryRun: true}})
			}
		}
	}
}

// keep drops the pods that do not live on: they are not listed, or really end now.
func (s *simulated) keep(pods []*nodepods.Pod) {
	live := make(map[string]string, len(s.pods))
	for _, pod := range pods {
		if uid := pod.UID; s.has(uid) && !pod.Terminating && !pod.Finished {
			live[uid] = pod.CgroupUID
		}
	}
	for uid, w := range s.pods {
		cgroup, lives := live[uid]
		if !lives {
			delete(s.pods, uid)
			continue
		}
		w.cgroup = cgroup
	}
}

// update takes what the pods hold now.
func (s *simulated) update(expected func(w *wouldBe, uid string) pressure.Amounts) {
	for uid, w := range s.pods {
		w.held = w.held.Updated(expected(w, uid))
	}
}

// holdsDisk reports whether one of them holds part of a disk.
func (s *simulated) holdsDisk() bool {
	for _, w := range s.pods {
		if w.held.OnDisk() != (pressure.Amounts{}) {
			return true
		}
	}
	return false
}

// followDryRun brings the would-be victims up to date before a sample is read.
func (a *Agent) followDryRun(ctx context.Context, now time.Time, ended []inflight.Booking) {
	s := &a.simulated
	if !a.policy.DryRun {
		*s = simulated{}
		return
	}
	s.add(ended)
	if len(s.pods) == 0 || !a.options.Pods.Synced() {
		return
	}
	pods := a.options.Pods.List()
	s.keep(pods)
	if len(s.pods) == 0 {
		return
	}
	read, _ := a.measurer.Collect() // a fault was reported; a pod that is missing keeps its figures
	if s.holdsDisk() {
		a.measurer.RefreshDisk(ctx, now, pods, simulatedDiskEvery)
	}
	s.update(func(w *wouldBe, uid string) pressure.Amounts { return a.heldBy(w, uid, read) })
}

// heldBy returns what is known of what a pod holds now, in the measure of each signal.
func (a *Agent) heldBy(w *wouldBe, uid string, read []usage.Pod) pressure.Amounts {
	var held pressure.Amounts
	for i := range read {
		if read[i].UID == w.cgroup {
			held = measure.Expected(&read[i], a.policy.MemoryAvailable)
		}
	}
	if onDisk, known := a.measurer.LastOnDisk(uid, w.cgroup); known {
		held = held.Updated(onDisk)
	}
	return held
}
