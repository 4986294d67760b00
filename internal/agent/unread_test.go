package agent

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/usage"
)

// partlyRead is a fakeNode of whose cgroups some cannot be read, or not be listed, at a time.
type partlyRead struct {
	*fakeNode
	unread   func() []string // UIDs
	unlisted func() bool     // nil: all directories can be listed
}

func (c partlyRead) Collect(into []usage.Pod) ([]usage.Pod, error) {
	read, err := c.fakeNode.Collect(into)
	if err != nil {
		return read, err
	}
	unread := c.unread()
	fault := &usage.UnreadError{ListingFailed: c.unlisted != nil && c.unlisted()}
	if fault.ListingFailed {
		fault.Faults = append(fault.Faults, errPlanted())
	} else {
		fault.Pods = unread
	}
	for range unread {
		fault.Faults = append(fault.Faults, errPlanted())
	}
	read = slices.DeleteFunc(read, func(p usage.Pod) bool { return slices.Contains(unread, p.UID) })
	if len(fault.Faults) == 0 {
		return read, nil
	}
	return read, fault
}

// hogAndModest is a node that a pod takes whole; a neighbour is a little over its request.
func hogAndModest() *fakeNode {
	n := newFakeNode(1000)
	n.run("hog", 900, 100)
	n.run("modest", 50, 10)
	return n
}

// between reports whether the time since the start is in that span.
func between(start time.Time, from, to time.Duration) bool {
	now := time.Since(start)
	return from <= now && now < to
}

// TestFaultOneFailedReadTakesNoNeighbour: one failed read of the pod that takes the node's memory
// must not evict its neighbour.
func TestFaultOneFailedReadTakesNoNeighbour(t *testing.T) {
	t.Parallel()
	for name, listingFails := range map[string]bool{"its files cannot be read": false, "its class cannot be listed": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n, start := hogAndModest(), time.Now()
				n.ends = time.Minute
				failing := func() bool { return between(start, 0, 30*time.Millisecond) }
				unread := func() []string {
					if failing() {
						return []string{"uid-hog"}
					}
					return nil
				}
				a := newAgent(t, n, hardPolicy(), func(o *Options) {
					o.Cgroups = partlyRead{n, unread, func() bool { return listingFails && failing() }}
				})
				runFor(t, a, 10*time.Second)
				n.wantVictims(t, "hog")
				if d := n.decisions[0]; d.Hold != decide.HoldUsageUnknown || !strings.Contains(d.Detail, "shop/hog") {
					t.Errorf("the first decision: %s (%s), want that the hog could not be read", d.Hold, d.Detail)
				}
			})
		})
	}
}

// A reading of a moment ago stands in for one that fails, for as long as it is young.
func TestFaultLastReadingStandsIn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n, start := hogAndModest(), time.Now()
		n.host = -500 * mebi // calm
		n.after(20*time.Second, func() { n.host = 0 })
		unread := func() []string {
			if between(start, 10*time.Second, time.Hour) {
				return []string{"uid-hog"}
			}
			return nil
		}
		a := newAgent(t, n, hardPolicy(), func(o *Options) { o.Cgroups = partlyRead{n, unread, nil} })
		runFor(t, a, 22*time.Second)
		n.wantVictims(t, "hog")
		if len(n.holds()) > 0 && n.holds()[0] == decide.HoldUsageUnknown {
			t.Errorf("holds %v although a reading of 20 s ago was there", n.holds())
		}
	})
}

// A pod that can never be read holds a decision for a second, and then concerns itself alone;
// so do one after the other that are made and deleted.
func TestFaultUnreadPodsStarveNoEviction(t *testing.T) {
	t.Parallel()
	for name, another := range map[string]time.Duration{"one for ever": time.Hour, "another each 0.3 s": 300 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n, start := hogAndModest(), time.Now()
				for i := range 8 {
					n.run(fmt.Sprintf("tiny-%d", i), 1, 0)
				}
				n.ends = time.Minute
				unread := func() []string { // the one that is there was never read before: nothing stands in
					n.mu.Lock()
					defer n.mu.Unlock()
					there := fmt.Sprintf("uid-tiny-%d", time.Since(start)/another)
					for uid, p := range n.pods {
						p.noCgroup = strings.HasPrefix(uid, "uid-tiny") && uid != there
					}
					return []string{there}
				}
				unread()
				a := newAgent(t, n, hardPolicy(), func(o *Options) { o.Cgroups = partlyRead{n, unread, nil} })
				runFor(t, a, 2*time.Second)
				n.wantVictims(t, "hog")
				d := n.last(t)
				for _, d = range n.decisions {
					if d.Verb == decide.Acted {
						break
					}
				}
				if took := d.Time.Sub(start); took < decide.UnreadWait || took > decide.UnreadWait+100*time.Millisecond {
					t.Errorf("it was evicted after %v, want %v", took, decide.UnreadWait)
				}
			})
		})
	}
}

// A cgroup that is not there is no failure: its pod has ended.
func TestUnreadCgroupThatHasGoneIsNoFailure(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := hogAndModest()
		n.run("ended", 0, 0)
		n.pods["uid-ended"].noCgroup = true
		n.ends = time.Minute
		unread := func() []string { return []string{"uid-ended"} }
		a := newAgent(t, n, hardPolicy(), func(o *Options) { o.Cgroups = partlyRead{n, unread, nil} })
		runFor(t, a, 500*time.Millisecond)
		n.wantVictims(t, "hog")
	})
}

// A pod of which it cannot be told whether it stalls holds memory.stall for a moment only.
func TestFaultUnreadStallStarvesNoEviction(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := hogAndModest()
		n.run("tiny", 1, 0)
		n.ends = time.Minute
		n.unstalled = &usage.UnreadError{Pods: []string{"uid-tiny"}, Faults: []error{errPlanted()}}
		share := 0.3
		stall(t, n, &share, 10*time.Second, func() {})
		n.wantVictims(t, "hog")
		if diff := cmp.Diff([]decide.Hold{decide.HoldUsageUnknown, decide.HoldReclaimInProgress}, n.holds()); diff != "" {
			t.Errorf("holds (-want +got):\n%s", diff)
		}
	})
}

// While a disk is short, for days, nothing read the cgroups: a hog that could not be read when memory
// ran short cost its neighbour.
func TestFaultDiskPressureLeavesMemoryWithoutAReading(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n, start := hogAndModest(), time.Now()
		n.host = -500 * mebi // calm
		n.after(time.Hour, func() { n.host = 0 })
		unread := func() []string {
			if between(start, time.Hour-time.Second, time.Hour+3*time.Second) {
				return []string{"uid-hog"}
			}
			return nil
		}
		policy := hardPolicy()
		policy.Thresholds = append(policy.Thresholds, pressure.Threshold{
			Signal: pressure.NodeFSAvailable, Quantity: pressure.Absolute(100), Hard: true,
		})
		a := newAgent(t, n, policy, func(o *Options) {
			o.Sampler, o.Cgroups = &hooked{fakeNode: n, disk: true}, partlyRead{n, unread, nil}
		})
		runFor(t, a, time.Hour+2*time.Second)
		n.wantVictims(t, "hog")
	})
}
