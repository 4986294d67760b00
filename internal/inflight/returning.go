package inflight

import (
	"context"
	"slices"
	"time"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/pkg/pressure"
)

// A victim is in flight until half of what it held shows in the signal, or its time is over: no other
// event forgets it. The kubelet removes dead containers, and with them layers and logs, once a minute (ContainerGCPeriod).

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

// The victims of a dry run that would have ended by now run on: what they hold counts as reclaimed,
// see docs/adr/0015-dry-run-counts-would-be-victims-as-reclaimed.md.

// simulatedDiskEvery is how often disks are measured for would-be victims that hold part of
// one. The kubelet computes these figures once a minute.
const simulatedDiskEvery = time.Minute

func simulated(v *decide.Victim) bool { return v.Phase == decide.Gone && v.DryRun }

// Simulated reports whether a pod counts as ended in a dry run.
func (t *Tracker) Simulated(uid string) bool {
	return slices.ContainsFunc(t.victims, func(v *decide.Victim) bool { return v.UID == uid && simulated(v) })
}

// simulatedAmount returns how much of the signal counts as reclaimed, in its unit: what is known to
// come back, and so nothing of a stall.
func (t *Tracker) simulatedAmount(signal pressure.Signal) int64 {
	all := int64(0)
	for _, v := range t.victims {
		if simulated(v) && signal != pressure.MemoryStall {
			all += v.Expected.At(signal)
		}
	}
	return all
}

// Without returns the sample as it would be without the would-be victims; the same sample when there
// are none. What is not known stays so.
func (t *Tracker) Without(seen *pressure.Sample) *pressure.Sample {
	without := seen
	for _, signal := range pressure.Signals() {
		amount := t.simulatedAmount(signal)
		if amount == 0 || seen.Of(signal).State != pressure.Known {
			continue
		}
		if without == seen {
			sample := *seen
			without = &sample
		}
		o := &without.Observations[signal]
		o.Available = min(max(o.Available, o.Capacity), o.Available+amount)
	}
	return without
}

// simulate brings the would-be victims up to date: it drops those that no longer run, and measures what the
// others hold. What cannot be read keeps its figures.
func (t *Tracker) simulate(ctx context.Context, now time.Time) {
	t.drop(func(v *decide.Victim) bool { return simulated(v) && (!t.stays(v.UID) || t.pod(v.UID).Finished) })
	if !slices.ContainsFunc(t.victims, simulated) {
		return
	}
	held, _ := t.measurer.Held(now) // a fault was reported
	for _, v := range t.victims {
		if !simulated(v) {
			continue
		}
		if v.Expected.OnDisk() != (pressure.Amounts{}) {
			t.measurer.RefreshDisk(ctx, now, t.pods.List(), simulatedDiskEvery)
		}
		v.Expected = v.Expected.Updated(held[v.UID]).Updated(t.measurer.LastOnDisk(v.UID))
	}
}
