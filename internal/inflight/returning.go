package inflight

import (
	"slices"
	"time"

	"github.com/evictd/evictd/internal/restored"
	"github.com/evictd/evictd/pkg/pressure"
)

// The disk space of a victim is reclaimed after the pod has ended: see
// docs/adr/0009-await-the-space-of-disk-victims.md.

// CollectedWithin is how long after its end a victim's layers and logs may still be
// there: the kubelet removes them with the next collection of dead containers, and the
// runtime takes a moment for it.
const CollectedWithin = time.Minute + DeadlineMargin

// returning are the victims that have ended and whose disk space has not come back yet. The
// zero value has none.
type returning struct {
	victims []goneVictim // the oldest first
	// ended is when the last one ended, whether its space has come back or not.
	ended time.Time
	// seen are the disks' last readings, so that there is one from before a victim's end.
	seen pressure.Amounts
	// kubelets are the pods of which it is known that the kubelet evicted them, by UID; nil
	// where no shortage lasts.
	kubelets map[string]bool
}

// goneVictim is a pod that has ended.
type goneVictim struct {
	// inDoubt is the pod's UID when it is not known whether it was evicted; "" when that is known.
	inDoubt string
	at      time.Time
	// expected is what should come back and before what was available at the last reading
	// before its end, both by signal and in the signal's unit.
	expected, before pressure.Amounts
}

// observe takes the pods that have ended and a sample: it forgets those whose space has come
// back and those whose time is over.
func (r *returning) observe(sample *pressure.Sample, ended []pressure.Amounts) {
	for _, expected := range ended {
		r.victims = append(r.victims, goneVictim{at: sample.Time, expected: expected, before: r.seen})
		r.ended = sample.Time
	}
	for _, signal := range pressure.Signals() {
		if seen := sample.Of(signal); signal.OnDisk() && seen.State == pressure.Known {
			r.credit(signal, seen.Available)
			r.seen = r.seen.With(signal, seen.Available)
		}
	}
	r.victims = slices.DeleteFunc(r.victims, func(v goneVictim) bool {
		return sample.Time.Sub(v.at) >= CollectedWithin || v.expected == (pressure.Amounts{})
	})
}

// forget forgets the pods in doubt that stay: they were not evicted.
func (r *returning) forget(stays func(uid string) bool) {
	r.victims = slices.DeleteFunc(r.victims, func(v goneVictim) bool { return v.inDoubt != "" && stays(v.inDoubt) })
}

// credit counts a rise for the victims in their order. A victim whose space was reclaimed holds
// nothing any more, and what it held counts for no other.
func (r *returning) credit(signal pressure.Signal, available int64) {
	for i := range r.victims {
		v := &r.victims[i]
		expected, holds := v.expected.Of(signal)
		before, known := v.before.Of(signal)
		switch {
		case !holds || !known:
			continue
		case available-before < expected/2:
			return
		}
		v.expected = v.expected.Without(signal)
		for later := i + 1; later < len(r.victims); later++ {
			next := &r.victims[later]
			if start, known := next.before.Of(signal); known {
				next.before = next.before.With(signal, start+expected)
			}
		}
	}
}

// expected returns how much of the signal has still to come back, and when the last of those
// that hold it ended.
func (r *returning) expected(signal pressure.Signal) (amount int64, last time.Time) {
	for i := range r.victims {
		if held := r.victims[i].expected.At(signal); held > 0 {
			amount, last = amount+held, r.victims[i].at
		}
	}
	return amount, last
}

// KubeletEvicted is a listed pod that the kubelet has evicted.
type KubeletEvicted struct {
	UID string
	// Measured says that Held, which is what it held of disks, was measured.
	Measured bool
	Held     pressure.Amounts
}

// ObserveSpace takes what has ended since the last tick and a sample. Kubelets are all pods that
// the kubelet has evicted while a shortage lasts, and nil when there is no shortage. Stays reports
// whether a pod is listed and is not being deleted; nil when that is not known. A dry run's victim
// holds nothing. The space of pods that evictd did not evict shows as it is reclaimed; where pods
// end all the time, a wait for each would not end.
func (t *Tracker) ObserveSpace(sample *pressure.Sample, ended []Booking, kubelets []KubeletEvicted, stays func(uid string) bool) {
	var gone []pressure.Amounts
	own := map[string]bool{}
	for i := range ended {
		if ended[i].Signal != "" && !ended[i].DryRun {
			own[ended[i].UID] = true
			gone = append(gone, ended[i].Expected.OnDisk())
		}
	}
	gone = append(gone, t.newKubelets(kubelets, own)...)
	if stays != nil {
		t.returning.forget(stays)
	}
	t.returning.observe(sample, gone)
}

// newKubelets returns what the pods held that the kubelet was first seen to have evicted, once
// they are not in flight any more. Those that it had evicted when the shortage began are not new,
// nor are own victims that the kubelet has evicted too.
func (t *Tracker) newKubelets(kubelets []KubeletEvicted, own map[string]bool) []pressure.Amounts {
	before := t.returning.kubelets
	t.returning.kubelets = nil
	if kubelets == nil {
		return nil
	}
	var gone []pressure.Amounts
	t.returning.kubelets = map[string]bool{}
	for _, pod := range kubelets {
		if t.Booked(pod.UID) {
			continue
		}
		t.returning.kubelets[pod.UID] = true
		if pod.Measured && before != nil && !before[pod.UID] && !own[pod.UID] {
			gone = append(gone, pod.Held)
		}
	}
	return gone
}

// AwaitSpace waits for the space of a pod that may have ended because of a request in doubt.
func (t *Tracker) AwaitSpace(g Gone, now time.Time) { t.returning.restore([]Gone{g}, now) }

// Returning returns how much of the signal the victims that have ended should still free, and when
// the last of them ended.
func (t *Tracker) Returning(signal pressure.Signal) (amount int64, last time.Time) {
	return t.returning.expected(signal)
}

// LastDiskEnd returns when the last victim ended whose space was waited for, whether it has come
// back or not; the zero time when none has.
func (t *Tracker) LastDiskEnd() time.Time { return t.returning.ended }

// export returns the disk victims whose space has not come back.
func (r *returning) export() []Gone {
	gone := make([]Gone, 0, len(r.victims))
	for i := range r.victims {
		v := &r.victims[i]
		gone = append(gone, Gone{UID: v.inDoubt, At: v.at, Expected: v.expected, Before: v.before, Expires: v.at.Add(CollectedWithin)})
	}
	return gone
}

// restore puts back the disk victims whose space had not come back.
func (r *returning) restore(gone []Gone, now time.Time) {
	for _, v := range gone {
		if !now.Before(v.Expires) {
			continue
		}
		one := goneVictim{inDoubt: v.UID, at: restored.Time(v.At, now, 0), expected: v.Expected, before: v.Before}
		r.victims, r.ended = append(r.victims, one), one.at
	}
}
