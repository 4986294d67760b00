package agent

import (
	"github.com/evictd/evictd/internal/inflight"
	"github.com/evictd/evictd/pkg/pressure"
)

// followReturning takes what has ended since the last tick: own victims, and the kubelet's.
func (a *Agent) followReturning(sample *pressure.Sample, ended []inflight.Booking) {
	var kubelets []inflight.KubeletEvicted
	if a.incidents.Any() {
		kubelets = []inflight.KubeletEvicted{}
		for _, pod := range a.evictedByKubelet() {
			held, known := a.measurer.LastOnDisk(pod.UID, pod.CgroupUID)
			kubelets = append(kubelets, inflight.KubeletEvicted{UID: pod.UID, Measured: known, Held: held})
		}
	}
	var stays func(uid string) bool
	if a.options.Pods.Synced() {
		stays = a.stays
	}
	a.victims.ObserveSpace(sample, ended, kubelets, stays)
}
