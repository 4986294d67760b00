package fleet

import (
	"time"

	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/usage"
)

const (
	capacity  = 16 << 30
	threshold = 1 << 30
)

// calmNode are the readings of a node that is short of nothing.
type calmNode struct{}

// Sample reads the node.
func (calmNode) Sample(now time.Time) pressure.Sample {
	sample := pressure.Sample{Time: now}
	for i := range sample.Observations {
		sample.Observations[i].State = pressure.Absent
	}
	sample.Observations[pressure.MemoryAvailable] = pressure.Observation{
		State: pressure.Known, Available: capacity, Capacity: capacity,
	}
	return sample
}

// Collect finds no pod.
func (calmNode) Collect(into []usage.Pod) ([]usage.Pod, error) { return into, nil }

// Stalls finds none.
func (calmNode) Stalls() ([]usage.Stall, error) { return nil, nil }

// Present finds no pod.
func (calmNode) Present(string) (bool, error) { return false, nil }
