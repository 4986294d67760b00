package agent

import (
	"context"
	"time"

	"github.com/evictd/evictd/internal/measure"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/usage"
)

// simulatedDiskEvery is how often disks are measured for would-be victims that hold part of
// one. The kubelet computes these figures once a minute.
const simulatedDiskEvery = time.Minute

// followDryRun brings the would-be victims up to date before a sample is read, see
// docs/adr/0015-dry-run-counts-would-be-victims-as-reclaimed.md.
func (a *Agent) followDryRun(ctx context.Context, now time.Time) {
	s := a.victims.Simulated()
	if s.Empty() || !a.options.Pods.Synced() {
		return
	}
	pods := a.options.Pods.List()
	if s.ObservePods(pods); s.Empty() {
		return
	}
	read, _ := a.measurer.Collect() // a fault was reported; a pod that is missing keeps its figures
	if s.HoldsDisk() {
		a.measurer.RefreshDisk(ctx, now, pods, simulatedDiskEvery)
	}
	s.Measure(func(uid, cgroup string) pressure.Amounts { return a.heldBy(uid, cgroup, read) })
}

// heldBy returns what is known of what a pod holds now, in the measure of each signal.
func (a *Agent) heldBy(uid, cgroup string, read []usage.Pod) pressure.Amounts {
	var held pressure.Amounts
	for i := range read {
		if read[i].UID == cgroup {
			held = measure.Expected(&read[i], a.policy.MemoryAvailable)
		}
	}
	if onDisk, known := a.measurer.LastOnDisk(uid, cgroup); known {
		held = held.Updated(onDisk)
	}
	return held
}
