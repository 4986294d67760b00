package agent

import (
	"slices"
	"time"

	"github.com/evictd/evictd/internal/inflight"
	"github.com/evictd/evictd/pkg/pressure"
)

// What a victim held of a disk comes back after the pod has gone: the kubelet removes dead
// containers once a minute. Until then the space is neither available nor held by a pod. A
// victim is waited for until availability rose by half of what it held, or for
// collectedWithin. It is forgotten for no other reason: a threshold that is met anew, an edit
// or a reading that fails says nothing of its files.

// collectedWithin is how long after its end a victim's layers and logs may still be
// there: the kubelet removes them with the next collection of dead containers, and the
// runtime takes a moment for it.
const collectedWithin = time.Minute + inflight.DeadlineMargin

// returning are the victims that have ended and whose disk space has not come back yet. The
// zero value has none.
type returning struct {
	victims []goneVictim // the oldest first
	// ended is when the last one ended, whether its space has come back or not.
	ended time.Time
	// seen are the disks' last readings, so that there is one from before a victim's end.
	seen pressure.Amounts
	// kubelets are the pods of which it is known that the kubelet evicted them, by UID; nil
	// where no incident is open.
	kubelets map[string]bool
}

// goneVictim is a pod that has ended.
type goneVictim struct {
	// inDoubt is the pod's UID where nobody knows whether it was evicted; "" where that is known.
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
		return sample.Time.Sub(v.at) >= collectedWithin || v.expected == (pressure.Amounts{})
	})
}

// forget forgets the pods in doubt that stay: they were not evicted.
func (r *returning) forget(stays func(uid string) bool) {
	r.victims = slices.DeleteFunc(r.victims, func(v goneVictim) bool { return v.inDoubt != "" && stays(v.inDoubt) })
}

// credit counts a rise for the victims in their order. One whose space has come back holds
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

// followReturning takes what has ended since the last tick: own victims, and the kubelet's. A
// dry run's victim holds up nothing. What others end shows as it comes back; where pods end
// all the time, to wait for each would be for ever.
func (a *Agent) followReturning(sample *pressure.Sample, ended []inflight.Booking) {
	var gone []pressure.Amounts
	own := map[string]bool{}
	for i := range ended {
		if ended[i].Signal != "" && !ended[i].DryRun {
			own[ended[i].UID] = true
			gone = append(gone, ended[i].Expected.OnDisk())
		}
	}
	if a.incidents.Any() {
		gone = append(gone, a.newKubelets(own)...)
	} else {
		a.returning.kubelets = nil
	}
	if a.options.Pods.Synced() {
		a.returning.forget(a.stays)
	}
	a.returning.observe(sample, gone)
}

// newKubelets returns what the pods held that the kubelet was first seen to have evicted,
// once the ledger has let go of them. Those that it had evicted when the incident began are not
// new, nor are own victims that the kubelet has evicted too.
func (a *Agent) newKubelets(own map[string]bool) []pressure.Amounts {
	var gone []pressure.Amounts
	before := a.returning.kubelets
	a.returning.kubelets = map[string]bool{}
	for _, pod := range a.evictedByKubelet() {
		uid := pod.UID
		if a.victims.Booked(uid) {
			continue
		}
		a.returning.kubelets[uid] = true
		if held, known := a.measurer.LastOnDisk(uid, pod.CgroupUID); known && before != nil && !before[uid] && !own[uid] {
			gone = append(gone, held)
		}
	}
	return gone
}
