package agent

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/pkg/pressure"
)

const stallWindow = 2 * time.Second

// stalling is a fakeNode whose tasks wait for memory, by a share that the test
// writes.
type stalling struct {
	*fakeNode
	share *float64 // of the window
}

func (s stalling) Sample(now time.Time) pressure.Sample {
	sample := s.fakeNode.Sample(now)
	s.mu.Lock()
	defer s.mu.Unlock()
	window := stallWindow.Microseconds()
	sample.Observations[pressure.MemoryStall] = pressure.Observation{
		State: pressure.Known, Available: window - int64(*s.share*float64(window)), Capacity: window,
	}
	return sample
}

// stallPolicy evicts when tasks wait for more than a tenth of the window.
func stallPolicy() Policy {
	policy := hardPolicy()
	policy.Thresholds = []pressure.Threshold{{Signal: pressure.MemoryStall, Quantity: pressure.Fraction(0.9), Hard: true}}
	return policy
}

// stall runs an agent on a node that stalls by so much, while what grows in it grows
// ten times a second.
func stall(t *testing.T, n *fakeNode, share *float64, during time.Duration, grow func()) {
	t.Helper()
	stallBy(t, n, stallPolicy(), share, during, grow)
}

// stallBy is stall with a policy of the test's own.
func stallBy(t *testing.T, n *fakeNode, policy Policy, share *float64, during time.Duration, grow func()) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), during)
	defer stop()
	a := newAgent(t, n, policy)
	a.options.Sampler = stalling{n, share}
	var growing sync.WaitGroup
	growing.Go(func() {
		for ctx.Err() == nil {
			n.mu.Lock()
			grow()
			n.mu.Unlock()
			time.Sleep(100 * time.Millisecond)
		}
	})
	if err := a.Run(ctx); err != nil {
		t.Error(err)
	}
	growing.Wait()
}

func TestStallEvictsTheFirstOfTheOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(10_000)
		n.ends = 20 * time.Second
		n.run("greedy", 500, 100)
		n.run("modest", 300, 100)
		share := 0.3
		stall(t, n, &share, 15*time.Second, func() {
			n.pods["uid-modest"].waited += 50 * time.Millisecond
		})
		n.wantVictims(t, "greedy")
	})
}

// TestFaultStallIsNotComparedWithBytes: what a protected pod uses is in bytes, and what is missing
// of a window is time: the two are not compared.
func TestFaultStallIsNotComparedWithBytes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(10_000)
		n.run("bare", 500, 100, func(pod *corev1.Pod) { pod.OwnerReferences = nil })
		share := 0.3
		stall(t, n, &share, 10*time.Second, func() {})
		if d := n.last(t); d.Hold != decide.HoldNoCandidates || strings.Contains(d.Detail, "shop/bare") {
			t.Errorf("hold %q, detail %q; want %q and no amount", d.Hold, d.Detail, decide.HoldNoCandidates)
		}
	})
}

// TestStallIsMeasuredAnewAfterAVictimsEnd: a window in which the victim was still running does not
// show the time after it.
func TestStallIsMeasuredAnewAfterAVictimsEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(10_000)
		n.ends = time.Second
		n.run("greedy", 500, 100)
		n.run("modest", 300, 100)
		share := 0.3
		stall(t, n, &share, 10*time.Second, func() {
			if len(n.pods) == 1 && share > 0 {
				share -= 0.015 // the window slides out of the stall in two seconds
			}
		})
		n.wantVictims(t, "greedy")
	})
}

func TestPodThatThrashesAloneIsNotTheNodesPressure(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		grow func(n *fakeNode)
		want []string
		hold decide.Hold
	}{
		{
			"alone in its limit", func(n *fakeNode) {
				n.pods["uid-bound"].waited += 90 * time.Millisecond
				n.pods["uid-bound"].limitHits += 5
			},
			[]string{},
			decide.HoldStalledWithinOwnLimits,
		},
		{
			"and another stalls too", func(n *fakeNode) {
				n.pods["uid-bound"].waited += 90 * time.Millisecond
				n.pods["uid-bound"].limitHits += 5
				n.pods["uid-other"].waited += 20 * time.Millisecond
			},
			[]string{"greedy"},
			"",
		},
		{
			"and another stalls a little", func(n *fakeNode) {
				n.pods["uid-bound"].limitHits += 5
				n.pods["uid-other"].waited += 5 * time.Millisecond
			},
			[]string{},
			decide.HoldStalledWithinOwnLimits,
		},
		{
			"on cgroup v1", func(n *fakeNode) {
				n.noPodStalls = true
				n.pods["uid-bound"].limitHits++
				n.pods["uid-other"].waited += 90 * time.Millisecond
			},
			[]string{},
			decide.HoldStalledWithinOwnLimits,
		},
		{"no pod met a limit", func(n *fakeNode) { n.noPodStalls = true }, []string{"greedy"}, ""},
		{"it cannot be told", func(n *fakeNode) { n.unstalled = errPlanted() }, []string{}, decide.HoldUsageUnknown},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n := newFakeNode(10_000)
				n.ends = time.Hour
				n.run("greedy", 500, 100)
				n.run("bound", 300, 300)
				n.run("other", 300, 300)
				share := 0.3
				stall(t, n, &share, 10*time.Second, func() { test.grow(n) })
				n.wantVictims(t, test.want...)
				if d := n.last(t); test.hold != "" && d.Hold != test.hold {
					t.Errorf("hold %q (%s), want %q", d.Hold, d.Detail, test.hold)
				}
				if d := n.last(t); test.hold == decide.HoldStalledWithinOwnLimits && !strings.Contains(d.Detail, "shop/bound") {
					t.Errorf("detail %q does not say which pod", d.Detail)
				}
			})
		})
	}
}

func TestCalmNodeReadsNoPodsStalls(t *testing.T) {
	t.Parallel()
	for share, want := range map[float64]bool{0.04: false, 0.06: true} { // half of a tenth
		synctest.Test(t, func(t *testing.T) {
			n := newFakeNode(10_000)
			n.run("greedy", 500, 100)
			stall(t, n, &share, 10*time.Second, func() {})
			if got := n.stallReads > 0; got != want || n.stallReads > 11 {
				t.Errorf("stalled for %v of the time: the pods' stalls were read %d times in 10 s", share, n.stallReads)
			}
			if len(n.evictions) != 0 {
				t.Errorf("evicted %v", n.victims())
			}
		})
	}
}

// TestStallsThatWereReadLongAgoAreReadAnew: two readings that are far apart do not show the current
// stall.
func TestStallsThatWereReadLongAgoAreReadAnew(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(10_000)
		n.run("greedy", 500, 100)
		a := newAgent(t, n, stallPolicy())
		share := 0.06
		a.options.Sampler = stalling{n, &share}
		a.tick(t.Context())
		time.Sleep(time.Hour)
		share = 0.3
		a.tick(t.Context())
		if d := n.last(t); d.Hold != decide.HoldUsageUnknown || len(n.evictions) != 0 {
			t.Errorf("%d evictions; decision %+v", len(n.evictions), d)
		}
		time.Sleep(stallWindow / 2)
		a.tick(t.Context())
		synctest.Wait()
		n.wantVictims(t, "greedy")
	})
}
