package agent

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/inflight"
	"github.com/evictd/evictd/internal/measure/measuretest"
	"github.com/evictd/evictd/internal/nodepods"
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

// Tiny pods that end all the time are nothing that a node's stall waits for.
func TestFaultChurnStarvesNoStall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(100_000)
		n.ends = 20 * time.Second
		n.run("greedy", 5000, 100)
		n.churn(1, 10*time.Second, 2*time.Minute)
		share := 1.0
		stall(t, n, &share, 20*time.Second, func() {})
		n.wantVictims(t, "greedy")
	})
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

// TestStallWaitsForALargePodThatOthersEnd: a pod whose share matters is waited for, even if evictd
// did not evict it, and so is the window after its end.
func TestStallWaitsForALargePodThatOthersEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(100_000)
		n.ends = 5 * time.Second
		n.run("greedy", 5000, 100)
		n.run("leaving", 500, 100)
		n.terminate("uid-leaving")
		share := 0.3
		stall(t, n, &share, 15*time.Second, func() {
			if n.pods["uid-leaving"] == nil && share > 0 {
				share -= 0.015 // the window slides out of the stall in two seconds
			}
		})
		n.wantVictims(t)
	})
}

// lateList is a fakeNode whose watch tells of a pod half a second after its cgroup is there.
type lateList struct{ *fakeNode }

func (l lateList) List() []*nodepods.Pod {
	return slices.DeleteFunc(l.fakeNode.List(), func(p *nodepods.Pod) bool { return time.Since(p.Created) < 500*time.Millisecond })
}

// matters returns how many pods that others end matter to a stall.
func matters(a *Agent) int {
	return len(slices.DeleteFunc(a.memories.Victims.All(), func(b inflight.Booking) bool { return !b.MattersToStall }))
}

// TestFaultPodsThatMatteredToAStallAreForgotten: pods that come and go during a stall are
// forgotten. Each one matters until the watch reports it, because until then it might be in flight,
// and it may end without a sign of it.
func TestFaultPodsThatMatteredToAStallAreForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(100_000)
		n.run("greedy", 500, 100)
		n.answer = func(evict.Request) evict.Result { return evict.Result{Outcome: evict.BlockedByBudget} }
		const pods, every = 50, 5 * time.Second
		for i := range pods {
			time.AfterFunc(time.Duration(i)*every, func() {
				name := fmt.Sprintf("short-%d", i)
				n.run(name, 400, 100, func(pod *corev1.Pod) { pod.CreationTimestamp.Time = time.Now() })
				n.after(2*time.Second, func() { delete(n.pods, "uid-"+name) })
			})
		}
		share, mattered := 0.3, 0
		a := newAgent(t, n, stallPolicy(), func(o *Options) { o.Sampler, o.Pods = stalling{n, &share}, lateList{n} })
		for range pods * every / (100 * time.Millisecond) {
			a.tick(t.Context())
			synctest.Wait()
			select {
			case done := <-a.executor.Reports():
				a.takeReport(done)
			default:
			}
			mattered = max(mattered, matters(a))
			time.Sleep(100 * time.Millisecond)
		}
		if mattered != 1 || matters(a) != 0 {
			t.Errorf("%d pods mattered at a time, and %d do at the end; want 1 and none", mattered, matters(a))
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
