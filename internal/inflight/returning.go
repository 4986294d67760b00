package inflight

import (
	"time"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/pkg/pressure"
)

// A victim is in flight until half of what it held shows in the signal, or its time is over: see
// docs/adr/0009-await-the-space-of-disk-victims.md.

// Observe takes a sample: it forgets what has come back and what has had its time. While an incident
// is open, the victims of the kubelet that have ended are followed too.
func (t *Tracker) Observe(sample *pressure.Sample, incidentOpen bool) {
	t.followKubelets(sample.Time, incidentOpen)
	for _, signal := range pressure.Signals() {
		if seen := sample.Of(signal); seen.State == pressure.Known {
			t.credit(signal, seen.Available)
			t.seen = t.seen.With(signal, seen.Available)
		}
	}
	for _, v := range t.victims {
		if returns(v) && sample.Time.Sub(v.Ended) >= decide.ShownWithin {
			v.Expected = v.Expected.OnDisk()
		}
	}
	t.drop(func(v *decide.Victim) bool {
		return returns(v) && (sample.Time.Sub(v.Ended) >= decide.CollectedWithin || v.Expected == (pressure.Amounts{}))
	})
}

// returns reports whether a victim has ended and what it held should come back.
func returns(v *decide.Victim) bool { return v.Phase == decide.Gone && !v.DryRun }

// credit counts a rise for the victims in the order of their ends. A victim of which half has come
// back holds nothing any more, and what it held counts for no other. Memory shows while a victim's processes end, a
// disk's space after that.
func (t *Tracker) credit(signal pressure.Signal, available int64) {
	credited, more := int64(0), true
	for _, v := range t.victims {
		before, known := v.Before.Of(signal)
		expected := v.Expected.At(signal)
		switch {
		case !known || v.DryRun || v.Phase == decide.Requested:
		case v.Phase == decide.Gone:
			before += credited
			v.Before = v.Before.With(signal, before)
			if more = more && (expected <= 0 || available-before >= expected/2); more || expected <= 0 {
				v.Expected = v.Expected.Without(signal)
				credited += expected
			}
		case !signal.OnDisk() && available-before >= expected/2:
			v.Expected = v.Expected.Without(signal)
		}
	}
}

// returning returns the victims that have ended and are in flight for a pressure, each from its end
// until its time is over. They are not waited for where the signal has fallen since the last of them ended,
// and it would be too late for another victim then.
func (t *Tracker) returning(p *pressure.Pressure) []decide.Victim {
	signal, within := p.Threshold.Signal, decide.ReturnsWithin(p.Threshold.Signal)
	var gone []decide.Victim
	var last *decide.Victim
	for _, v := range t.victims {
		if returns(v) && v.Expected.At(signal) > 0 && p.SampleTime.Sub(v.Ended) < within {
			gone = append(gone, *v)
			last = &gone[len(gone)-1]
			last.Accepted, last.Deadline = v.Ended, v.Ended.Add(within)
		}
	}
	if last != nil && last.Before.At(signal)-p.Observed.Available > decide.Noise(p) && decide.TooLate(p, last.Deadline.Sub(p.SampleTime)) {
		return nil
	}
	return gone
}

// followKubelets follows the pods that the kubelet was first seen to have evicted while a shortage
// lasts. Those that it had evicted when the shortage began are not new, nor are own victims that the
// kubelet has evicted too.
func (t *Tracker) followKubelets(now time.Time, shortage bool) {
	before := t.kubelets
	t.kubelets = nil
	if !shortage {
		return
	}
	t.kubelets = map[string]bool{}
	for _, pod := range t.pods.List() {
		if pod.KubeletEvictedAt.IsZero() || t.Terminates(pod.UID) {
			continue
		}
		t.kubelets[pod.UID] = true
		if before == nil || before[pod.UID] || t.find(decide.Gone, pod.UID) != nil {
			continue
		}
		held := t.measurer.LastOnDisk(pod.CgroupUID)
		t.victims = append(t.victims, &decide.Victim{
			Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, Phase: decide.Gone, Ended: now, Expected: held, Before: t.seen,
		})
	}
}
