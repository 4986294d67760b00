package agent

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evictd/evictd/internal/decide"
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

// One failed read of the pod that takes the node's memory, and its neighbour went.
func TestFaultOneFailedReadTakesNoNeighbour(t *testing.T) {
	t.Parallel()
	for name, listingFails := range map[string]bool{"its files cannot be read": false, "its class cannot be listed": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n, start := hogAndModest(), time.Now()
				n.ends = time.Minute
				failing := func() bool { return between(start, 0, 30*time.Millisecond) }
				a := newAgent(t, n, hardPolicy())
				a.options.Cgroups = partlyRead{n, func() []string {
					if failing() {
						return []string{"uid-hog"}
					}
					return nil
				}, func() bool { return listingFails && failing() }}
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
		a := newAgent(t, n, hardPolicy())
		a.options.Cgroups = partlyRead{n, func() []string {
			if between(start, 10*time.Second, time.Hour) {
				return []string{"uid-hog"}
			}
			return nil
		}, nil}
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
	for name, unread := range map[string]func(start time.Time) string{
		"one for ever": func(time.Time) string { return "uid-tiny-0" },
		"another each 0.3 s": func(start time.Time) string {
			return []string{"uid-tiny-0", "uid-tiny-1"}[time.Since(start)/(300*time.Millisecond)%2]
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n, start := hogAndModest(), time.Now()
				n.run("tiny-0", 1, 0)
				n.run("tiny-1", 1, 0)
				n.ends = time.Minute
				a := newAgent(t, n, hardPolicy())
				a.options.Cgroups = partlyRead{n, func() []string { clear(a.lastRead); return []string{unread(start)} }, nil} // nothing stands in
				runFor(t, a, 2*time.Second)
				n.wantVictims(t, "hog")
				d := n.last(t)
				for _, d = range n.decisions {
					if d.Verb == decide.Acted {
						break
					}
				}
				if took := d.Time.Sub(start); took < unreadWait || took > unreadWait+100*time.Millisecond {
					t.Errorf("it was asked for after %v, want %v", took, unreadWait)
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
		a := newAgent(t, n, hardPolicy())
		a.options.Cgroups = partlyRead{n, func() []string { return []string{"uid-ended"} }, nil}
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
		if diff := cmp.Diff([]decide.Hold{decide.HoldUsageUnknown, decide.HoldOnItsWay}, n.holds()); diff != "" {
			t.Errorf("holds (-want +got):\n%s", diff)
		}
	})
}
