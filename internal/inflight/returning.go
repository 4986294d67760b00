package inflight

import (
	"slices"
	"time"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/restored"
	"github.com/evictd/evictd/pkg/pressure"
)

// A victim is in flight until half of what it held shows in the signal, or its time is over: see
// docs/adr/0009-await-the-space-of-disk-victims.md.

// CollectedWithin is how long after its end a victim's layers and logs may still be there: the
// kubelet removes them with the next collection of dead containers, and the runtime takes a moment
// for it. ShownWithin is the same of memory and tasks, which show at once: it matters where
// something else takes them meanwhile.
const (
	CollectedWithin = time.Minute + decide.DeadlineMargin
	ShownWithin     = 10 * time.Second
)

// ReturnsWithin returns how long after its end a victim may be in flight.
func ReturnsWithin(signal pressure.Signal) time.Duration {
	if signal.OnDisk() {
		return CollectedWithin
	}
	return ShownWithin
}

// returning are the victims that have ended and are still in flight. The zero value has none.
type returning struct {
	victims []Gone // the oldest first
	// seen is what was available at the last reading, so that there is one from before a victim's
	// end.
	seen pressure.Amounts
	// kubelets are the pods of which it is known that the kubelet evicted them, by UID; nil
	// where no shortage lasts.
	kubelets map[string]bool
	// unknown is when a process began that knows nothing of the time before; zero for another.
	unknown time.Time
}

// observe takes the victims that have ended and a sample: it forgets what has come back and what
// has had its time.
func (r *returning) observe(sample *pressure.Sample, ended []Gone) {
	r.victims = append(r.victims, ended...)
	for _, signal := range pressure.Signals() {
		if seen := sample.Of(signal); seen.State == pressure.Known {
			r.credit(signal, seen.Available)
			r.seen = r.seen.With(signal, seen.Available)
		}
	}
	for i := range r.victims {
		if v := &r.victims[i]; sample.Time.Sub(v.At) >= ShownWithin {
			v.Expected = v.Expected.OnDisk()
		}
	}
	r.victims = slices.DeleteFunc(r.victims, func(v Gone) bool {
		return sample.Time.Sub(v.At) >= CollectedWithin || v.Expected == (pressure.Amounts{})
	})
}

// credit counts a rise for the victims in their order. A victim of which half has come back holds
// nothing any more, and what it held counts for no other.
func (r *returning) credit(signal pressure.Signal, available int64) {
	for i := range r.victims {
		v := &r.victims[i]
		expected, holds := v.Expected.Of(signal)
		before, known := v.Before.Of(signal)
		switch {
		case !holds || !known:
			continue
		case available-before < expected/2:
			return
		}
		v.Expected = v.Expected.Without(signal)
		for later := i + 1; later < len(r.victims); later++ {
			next := &r.victims[later]
			if start, known := next.Before.Of(signal); known {
				next.Before = next.Before.With(signal, start+expected)
			}
		}
	}
}

// TooLate reports whether a victim that is chosen after a wait would come too late.
type TooLate func(p *pressure.Pressure, wait time.Duration) bool

// of returns the victims that have ended and are in flight for a pressure, as bookings. They are not
// waited for where it would be too late for another victim then.
func (r *returning) of(p *pressure.Pressure, tooLate TooLate) []decide.Victim {
	signal, within := p.Threshold.Signal, ReturnsWithin(p.Threshold.Signal)
	var gone []decide.Victim
	for i := range r.victims {
		v := &r.victims[i]
		if v.Expected.At(signal) > 0 && p.SampleTime.Sub(v.At) < within {
			gone = append(gone, decide.Victim{
				Namespace: v.Namespace, Name: v.Name, UID: v.UID, Signal: v.Signal, Expected: v.Expected,
				Accepted: v.At, Deadline: v.At.Add(within),
			})
		}
	}
	if len(gone) > 0 && tooLate(p, gone[len(gone)-1].Deadline.Sub(p.SampleTime)) {
		return nil
	}
	return gone
}

// ObserveSpace takes what has ended since the last tick and a sample. Kubelets are all pods that
// the kubelet has evicted while a shortage lasts, with what they were measured to hold of the disks,
// and nil when there is no shortage. Stays reports whether a pod is listed and is not being deleted;
// nil when that is not known. A dry run's victim holds nothing.
func (t *Tracker) ObserveSpace(sample *pressure.Sample, ended []decide.Victim, kubelets []Gone, stays func(uid string) bool) {
	r := &t.returning
	var gone []Gone
	own := map[string]bool{}
	for i := range ended {
		if b := &ended[i]; b.Signal != "" && !b.DryRun {
			own[b.UID] = true
			gone = append(gone, r.gone(b, sample.Time))
		}
	}
	for _, v := range t.newKubelets(kubelets, own) {
		v.At, v.Before = sample.Time, r.seen
		gone = append(gone, v)
	}
	if stays != nil { // a pod in doubt that stays was not evicted
		r.victims = slices.DeleteFunc(r.victims, func(v Gone) bool { return v.InDoubt && stays(v.UID) })
	}
	r.observe(sample, gone)
	for uid := range t.bookings {
		t.amend(uid, func(b *decide.Victim) { b.Highest = r.highest(b.Highest) })
	}
}

// highest returns the larger of what was available before and is now.
func (r *returning) highest(before pressure.Amounts) pressure.Amounts {
	for _, signal := range pressure.Signals() {
		if seen, known := r.seen.Of(signal); known && seen > before.At(signal) {
			before = before.With(signal, seen)
		}
	}
	return before
}

// gone returns a victim that has ended, with what has not shown yet of what it held at its last
// measurement: memory shows while its processes end, and a disk's space after that. How much of a
// stall its end removes is not known.
func (r *returning) gone(b *decide.Victim, now time.Time) Gone {
	expected := b.Expected.Without(pressure.MemoryStall)
	for _, signal := range pressure.Signals() {
		before, known := b.Before.Of(signal)
		shown := known && !signal.OnDisk() && b.Highest.At(signal)-before >= expected.At(signal)/2
		if shown || expected.At(signal) == 0 {
			expected = expected.Without(signal)
		}
	}
	return Gone{
		Namespace: b.Namespace, Name: b.Name, UID: b.UID, Signal: b.Signal, At: now,
		Expected: expected, Before: r.seen.Updated(b.Before).Updated(r.seen.OnDisk()),
	}
}

// newKubelets returns what the pods held that the kubelet was first seen to have evicted. Those that
// it had evicted when the shortage began are not new, nor are own victims that the kubelet has
// evicted too.
func (t *Tracker) newKubelets(kubelets []Gone, own map[string]bool) []Gone {
	before := t.returning.kubelets
	t.returning.kubelets = nil
	if kubelets == nil {
		return nil
	}
	var gone []Gone
	t.returning.kubelets = map[string]bool{}
	for _, pod := range kubelets {
		if t.Booked(pod.UID) {
			continue
		}
		t.returning.kubelets[pod.UID] = true
		if before != nil && !before[pod.UID] && !own[pod.UID] {
			gone = append(gone, pod)
		}
	}
	return gone
}

// AwaitSpace waits for the space of a pod that may have ended because of a request in doubt.
func (t *Tracker) AwaitSpace(g Gone, now time.Time) { t.returning.restore([]Gone{g}, now) }

// StartUnknown says that nothing is known of the time before: a victim of then may be in flight.
func (t *Tracker) StartUnknown(now time.Time) { t.returning.unknown = now }

// UnknownUntil returns until when a victim may be in flight of which nothing is known, because it
// ended before the start; the zero time where all is known.
func (t *Tracker) UnknownUntil(signal pressure.Signal) time.Time {
	if t.returning.unknown.IsZero() {
		return time.Time{}
	}
	return t.returning.unknown.Add(ReturnsWithin(signal))
}

// export returns the victims that have ended and are in flight.
func (r *returning) export() []Gone {
	gone := slices.Clone(r.victims)
	for i := range gone {
		gone[i].Expires = gone[i].At.Add(CollectedWithin)
	}
	return gone
}

// restore puts back the victims that had ended and were in flight.
func (r *returning) restore(gone []Gone, now time.Time) {
	for _, v := range gone {
		if now.Before(v.Expires) {
			v.At = restored.Time(v.At, now, 0)
			r.victims = append(r.victims, v)
		}
	}
}
