package inflight

import (
	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/nodepods"
	"github.com/evictd/evictd/pkg/pressure"
)

// Simulated are the victims of a dry run that count as ended and still run: what they hold counts
// as reclaimed, see docs/adr/0015-dry-run-counts-would-be-victims-as-reclaimed.md. The zero value
// has none.
type Simulated struct {
	pods map[string]*wouldBe // by UID
}

// wouldBe is one such victim.
type wouldBe struct {
	// cgroup is the UID in the name of its cgroup: a static pod has another.
	cgroup string
	// held is what its end would free, by signal, in the signal's unit; a figure that cannot be
	// read stays as it was.
	held pressure.Amounts
}

// Simulated returns the simulated victims that count as ended. [Tracker.Observe] adds to them.
func (t *Tracker) Simulated() *Simulated { return &t.simulated }

// Empty reports whether there are none.
func (s *Simulated) Empty() bool { return len(s.pods) == 0 }

// Has reports whether the pod counts as ended.
func (s *Simulated) Has(uid string) bool { return s.pods[uid] != nil }

// Amount returns how much of the signal counts as reclaimed, in its unit: what is known to come
// back.
func (s *Simulated) Amount(signal pressure.Signal) int64 {
	all := int64(0)
	for _, w := range s.pods {
		if amount, known := reclaimOf(signal, w.held); known {
			all += amount
		}
	}
	return all
}

// AddTo returns the sample as it would be without the simulated victims; the same sample when there
// are none. What is not known stays so.
func (s *Simulated) AddTo(seen *pressure.Sample) *pressure.Sample {
	if s.Empty() {
		return seen
	}
	without := *seen
	sample := &without
	for _, signal := range pressure.Signals() {
		seen := &sample.Observations[signal]
		if seen.State == pressure.Known {
			seen.Available = min(max(seen.Available, seen.Capacity), seen.Available+s.Amount(signal))
		}
	}
	return sample
}

// observe takes the bookings that have ended: a dry run's victims would have ended by then.
func (s *Simulated) observe(ended []decide.Victim) {
	for i := range ended {
		if b := &ended[i]; b.DryRun {
			s.add(b.UID, b.Expected)
		}
	}
}

// Restore takes a simulated victim of an open incident that no booking relies on any more. What it
// holds is measured before the first sample.
func (s *Simulated) Restore(uid string) { s.add(uid, pressure.Amounts{}) }

func (s *Simulated) add(uid string, held pressure.Amounts) {
	if s.Has(uid) {
		return
	}
	if s.pods == nil {
		s.pods = map[string]*wouldBe{}
	}
	s.pods[uid] = &wouldBe{cgroup: uid, held: held}
}

// ObservePods takes all pods of the node and drops the simulated victims that no longer run: they
// are not listed, or really end now.
func (s *Simulated) ObservePods(pods []*nodepods.Pod) {
	live := make(map[string]*wouldBe, len(s.pods))
	for _, pod := range pods {
		if w := s.pods[pod.UID]; w != nil && !pod.Terminating && !pod.Finished {
			w.cgroup = pod.CgroupUID
			live[pod.UID] = w
		}
	}
	s.pods = live
}

// Measure takes what each of them holds now, by its UID and that of its cgroup. A signal that is
// not known keeps its figure.
func (s *Simulated) Measure(held func(uid, cgroup string) pressure.Amounts) {
	for uid, w := range s.pods {
		w.held = w.held.Updated(held(uid, w.cgroup))
	}
}

// HoldsDisk reports whether one of them holds part of a disk.
func (s *Simulated) HoldsDisk() bool {
	for _, w := range s.pods {
		if w.held.OnDisk() != (pressure.Amounts{}) {
			return true
		}
	}
	return false
}
