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

// kubeletThresholds are the two sides of the last comparison of thresholds.
type kubeletThresholds struct {
	kubelet    *kubeletconfig.Configuration
	ours       []pressure.Threshold
	definition pressure.MemoryDefinition
}

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
	compared := d.compared.Load()
	if compared == nil {
		return kubeletconfig.Headroom{}, false
	}
	sample := d.host.read(compared.definition, pressure.MemoryAvailable, pressure.KubeletMemoryAvailable)
	return kubeletconfig.MemoryHeadroom(compared.ours, compared.kubelet, &kubeletconfig.Node{
		Sample: &sample, Definition: compared.definition, KubeletMemory: sample.Of(pressure.KubeletMemoryAvailable),
	}, near)
}
