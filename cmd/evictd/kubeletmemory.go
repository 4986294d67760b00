package main

import (
	"context"
	"time"

	"github.com/evictd/evictd/internal/kubeletconfig"
	"github.com/evictd/evictd/pkg/pressure"
)

// kubeletMemoryEvery is how often the node's memory is compared with the kubelet's threshold: the
// kubelet itself looks as often (monitoringInterval, pkg/kubelet/kubelet.go).
const kubeletMemoryEvery = 10 * time.Second

// followKubeletMemory compares the node's memory with the kubelet's hard threshold, by the kubelet's
// measure, for as long as evictd runs.
func (d *daemon) followKubeletMemory(ctx context.Context) error {
	ticker := time.NewTicker(kubeletMemoryEvery)
	defer ticker.Stop()
	for near := false; ; {
		headroom, known := d.kubeletHeadroom(near)
		d.recorder.KubeletHeadroom(&headroom, known)
		if known {
			near = headroom.Near
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// kubeletHeadroom reads the node; false where the kubelet's threshold or the reading is not known.
func (d *daemon) kubeletHeadroom(near bool) (kubeletconfig.Headroom, bool) {
	kubelet, c := d.kubelet.Load(), d.inForce.Load()
	if kubelet == nil {
		return kubeletconfig.Headroom{}, false
	}
	ours, _ := c.Thresholds() // it was validated
	definition := c.MemoryDefinition()
	sample := d.host.read(definition, pressure.MemoryAvailable, pressure.KubeletMemoryAvailable)
	return kubeletconfig.MemoryHeadroom(ours, kubelet, &kubeletconfig.Node{
		Sample: &sample, Definition: definition, KubeletMemory: sample.Of(pressure.KubeletMemoryAvailable),
	}, near)
}
