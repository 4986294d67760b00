package victims

import (
	"context"
	"slices"
	"time"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/incident"
	"github.com/evictd/evictd/internal/inflight"
	"github.com/evictd/evictd/internal/measure"
	"github.com/evictd/evictd/internal/nodepods"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/usage"
)

// ObserveReclaim returns the victims that have ended, with what the node got back by it. It reads
// the cgroups of all pods and, right after them, the node: a victim that takes a gigabyte a second
// would otherwise be seen at two sizes.
func (f *Follower) ObserveReclaim(now time.Time, ended []decide.Victim, sample func() pressure.Sample) []decide.Ended {
	return f.ObserveBooks(now, ended, func() inflight.Books {
		pods, err := f.options.Measurer.Collect()
		if err != nil {
			return inflight.Books{}
		}
		return booksOf(sample(), pods, f.memory)
	})
}

// booksOf returns the books by a sample and what the pods hold.
func booksOf(sample pressure.Sample, pods []usage.Pod, memory pressure.MemoryDefinition) inflight.Books {
	books := inflight.Books{Held: make(map[string]pressure.Amounts, len(pods))}
	for _, signal := range pressure.Signals() {
		if seen := sample.Of(signal); seen.State == pressure.Known {
			books.Available = books.Available.With(signal, seen.Available)
		}
	}
	for i := range pods {
		books.Held[pods[i].UID] = measure.Expected(&pods[i], memory)
	}
	return books
}

// ObserveSpace takes which victims have ended since the last tick: evictd's own, and, while an
// incident is open, those that the kubelet has evicted.
func (f *Follower) ObserveSpace(sample *pressure.Sample, ended []decide.Victim, incidentOpen bool) {
	var kubelets []inflight.Gone
	if incidentOpen {
		kubelets = []inflight.Gone{}
		for _, pod := range f.evictedByKubelet() {
			held, _ := f.options.Measurer.LastOnDisk(pod.UID, pod.CgroupUID)
			kubelets = append(kubelets, inflight.Gone{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, Expected: held})
		}
	}
	var stays func(uid string) bool
	if f.Synced() {
		stays = f.stays
	}
	f.Tracker.ObserveSpace(sample, ended, kubelets, stays)
}

// Evicted returns the listed pods that the kubelet has evicted, as an incident names them.
func (f *Follower) Evicted() []incident.Evicted {
	var evicted []incident.Evicted
	for _, pod := range f.evictedByKubelet() {
		evicted = append(evicted, incident.Evicted{Pod: pod.Key(), UID: pod.UID, At: pod.KubeletEvictedAt})
	}
	return evicted
}

// evictedByKubelet returns the listed pods that the kubelet has evicted. They stay listed until
// they are collected.
func (f *Follower) evictedByKubelet() []*nodepods.Pod {
	return slices.DeleteFunc(f.options.Pods.List(), func(pod *nodepods.Pod) bool { return !pod.KubeletEvicted })
}

// simulatedDiskEvery is how often disks are measured for would-be victims that hold part of
// one. The kubelet computes these figures once a minute.
const simulatedDiskEvery = time.Minute

// Simulate brings the would-be victims of a dry run up to date before a sample is read, see
// docs/adr/0015-dry-run-counts-would-be-victims-as-reclaimed.md.
func (f *Follower) Simulate(ctx context.Context, now time.Time) {
	s := f.Simulated()
	if s.Empty() || !f.Synced() {
		return
	}
	pods := f.options.Pods.List()
	if s.ObservePods(pods); s.Empty() {
		return
	}
	read, _ := f.options.Measurer.Collect() // a fault was reported; a pod that is missing keeps its figures
	if s.HoldsDisk() {
		f.options.Measurer.RefreshDisk(ctx, now, pods, simulatedDiskEvery)
	}
	s.Measure(func(uid, cgroup string) pressure.Amounts { return f.heldBy(uid, cgroup, read) })
}

// heldBy returns what is known of what a pod holds now, in the measure of each signal.
func (f *Follower) heldBy(uid, cgroup string, read []usage.Pod) pressure.Amounts {
	var held pressure.Amounts
	for i := range read {
		if read[i].UID == cgroup {
			held = measure.Expected(&read[i], f.memory)
		}
	}
	if onDisk, known := f.options.Measurer.LastOnDisk(uid, cgroup); known {
		held = held.Updated(onDisk)
	}
	return held
}
