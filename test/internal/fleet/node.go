package fleet

import (
	"sync"
	"time"

	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/usage"
)

const (
	mebi       = 1 << 20
	podRequest = 50 * mebi
	podUses    = 100 * mebi
	capacity   = 16 << 30
	threshold  = 1 << 30
)

// node is a simulated node: its pods' usage is known, and the test uses up the rest of its
// memory.
type node struct {
	mu    sync.Mutex
	host  int64 // used beside the pods
	pods  map[string]bool
	order []string // their UIDs, in order of creation
}

// press makes the node short of that many pods' worth of memory.
func (n *node) press(victims int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	// Half a pod less, so that the result does not depend on a byte.
	n.host = capacity - threshold - int64(len(n.pods))*podUses + int64(victims)*podUses - podUses/2
}

func (n *node) available() int64 { return capacity - n.host - int64(len(n.pods))*podUses }

func (n *node) pressed() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.available() < threshold
}

func (n *node) runs(uid string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.pods[uid] = true
	n.order = append(n.order, uid)
}

func (n *node) ended(uid string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.pods, uid)
}

// Sample reads the node.
func (n *node) Sample(now time.Time) pressure.Sample {
	n.mu.Lock()
	defer n.mu.Unlock()
	sample := pressure.Sample{Time: now}
	for i := range sample.Observations {
		sample.Observations[i].State = pressure.Absent
	}
	sample.Observations[pressure.MemoryAvailable] = pressure.Observation{
		State: pressure.Known, Available: n.available(), Capacity: capacity,
	}
	return sample
}

// Collect reads the pods.
func (n *node) Collect(into []usage.Pod) ([]usage.Pod, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, uid := range n.order {
		if n.pods[uid] {
			into = append(into, usage.Pod{UID: uid, WorkingSet: podUses, Anonymous: podUses, Tasks: 1, TasksKnown: true})
		}
	}
	return into, nil
}

// Stalls is not used.
func (n *node) Stalls() ([]usage.Stall, error) { return nil, nil }

// Present reports whether a pod exists.
func (n *node) Present(uid string) (bool, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.pods[uid], nil
}
