package agent

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/testing/measuretest"
	"github.com/evictd/evictd/pkg/evict"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/usage"
)

// churn runs a pod of so many MiB each period, which terminates at once and ends when the
// node's pods do. The UIDs differ.
func (n *fakeNode) churn(memory int64, every, during time.Duration) {
	for i := range int(during / every) {
		time.AfterFunc(time.Duration(i)*every, func() {
			name := fmt.Sprintf("churn-%d", i)
			n.run(name, memory, memory)
			n.mu.Lock()
			defer n.mu.Unlock()
			n.terminate("uid-" + name)
		})
	}
}

// Pods that end all the time, of a tenth of the first candidate's memory or less, starved a stall for
// as long as they came.
func TestFaultChurnStarvesNoStall(t *testing.T) {
	t.Parallel()
	for _, memory := range []int64{1, 1000} {
		synctest.Test(t, func(t *testing.T) {
			n := newFakeNode(100_000)
			n.ends = 20 * time.Second
			n.run("greedy", 5000, 100)
			n.churn(memory, 10*time.Second, 3*time.Minute)
			share := 1.0
			stall(t, n, &share, decide.HardPatience+5*time.Second, func() {})
			n.wantVictims(t, "greedy")
		})
	}
}

// Nor does the end of such a pod restart the window in which the stall is measured.
func TestFaultEndOfATinyPodRestartsNoWindow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(100_000)
		n.ends = 500 * time.Millisecond
		n.run("greedy", 5000, 100)
		n.churn(1, 900*time.Millisecond, time.Minute)
		refused := false
		n.answer = func(r evict.Request) evict.Result {
			if !refused {
				refused = true
				return evict.Result{Outcome: evict.BlockedByBudget}
			}
			return evict.Result{Outcome: taken(r)}
		}
		share := 1.0
		stall(t, n, &share, 30*time.Second, func() {
			if greedy := n.pods["uid-greedy"]; greedy == nil || greedy.leaving != nil {
				share = 0
			}
		})
		n.wantVictims(t, "greedy", "greedy")
		if slices.Contains(n.holds(), decide.HoldAwaitingNewerSample) {
			t.Errorf("holds %v: a window was restarted", n.holds())
		}
	})
}

// Pods that end all the time kept every measurement of a disk from being newer than the last
// of them.
func TestFaultChurnStarvesNoDiskMeasurement(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(1000)
		n.ends = 500 * time.Millisecond
		n.run("large", 300, 0)
		n.run("small", 100, 0)
		n.churn(1, time.Second, time.Minute)
		n.host = 600 * mebi // memory is short too, and no pod can go for it
		disk := &fakeDisk{node: n, slow: 3 * time.Second, measured: map[string]usage.DiskUse{
			"uid-large": measuretest.DiskUse(400, 1, 1, 1), "uid-small": measuretest.DiskUse(1, 1, 1, 1),
		}}
		policy := diskPolicy(pressure.NodeFSAvailable)
		policy.Thresholds = append(policy.Thresholds, pressure.Threshold{
			Signal: pressure.MemoryAvailable, Quantity: pressure.Absolute(5000 * mebi),
		})
		runDiskBy(t, n, disk, policy, 30*time.Second)
		n.wantVictims(t, "large")
	})
}
