package inflight

import (
	"context"
	"slices"
	"time"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/pkg/pressure"
)

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
