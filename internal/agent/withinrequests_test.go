package agent

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/testing/measuretest"
	"github.com/evictd/evictd/pkg/evict"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
	"github.com/evictd/evictd/pkg/usage"
)

// TestFaultHostMemoryTakesPodsWithinRequests: a process of the host uses memory until the threshold
// is met, and keeps it. The pods stay within their requests: none of them is evicted, however long
// it takes.
func TestFaultHostMemoryTakesPodsWithinRequests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := hostOnNode(0)
		watch(t, n, untilExhaustionPolicy(), 10*time.Minute)
		n.wantVictims(t)
		if diff := cmp.Diff([]decide.Hold{decide.HoldWithinRequests}, n.holds(), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("holds (-want +got):\n%s", diff)
		}
		want := "all 3 pods that could be evicted use no more than they requested: look at processes of the host, page cache and kernel memory; " +
			"one is evicted when less than 50.0Mi is left"
		if d := n.last(t); d.Detail != want {
			t.Errorf("detail:\n%s\nwant:\n%s", d.Detail, want)
		}
	})
}

// TestHostMemoryThatRunsOutTakesOnePod: the host keeps taking memory: one pod is evicted when less than
// half of the threshold is left, and not before, and its end is waited for.
func TestHostMemoryThatRunsOutTakesOnePod(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := hostOnNode(0)
		n.leakFrom(time.Minute, 2*mebi, 15*time.Second)
		watch(t, n, untilExhaustionPolicy(), 5*time.Minute)
		n.wantVictims(t, "a")
		victim := n.acted(t)
		if left := victim.Pressure.Observed.Available; left < 45*mebi || left >= 50*mebi {
			t.Errorf("%d MiB were left", left/mebi)
		}
	})
}

// TestFaultSmallPodsBesideALeakWithinItsRequest: a leak within its request uses up within seconds what
// small pods would free. They stay, and near exhaustion it alone goes.
func TestFaultSmallPodsBesideALeakWithinItsRequest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(3000)
		n.run("leak", 500, 3000)
		n.run("over", 110, 60)
		n.run("holder", 10, 8)
		n.run("near", 110, 130)
		n.host = 850 * mebi
		for i := range 300 {
			n.after(time.Duration(i)*100*time.Millisecond, func() {
				if leak, there := n.pods["uid-leak"]; there {
					leak.memory += 5 * mebi
				}
			})
		}
		policy := untilExhaustionPolicy()
		policy.Thresholds[0].Quantity = pressure.Absolute(500 * mebi)
		watch(t, n, policy, time.Minute)
		n.wantVictims(t, "leak")
		if d := n.acted(t); d.Ranking.Protected[0].Protection != rank.ProtectedReclaimTooSmall || len(d.Ranking.Protected) != 3 {
			t.Errorf("protected: %+v", d.Ranking.Protected)
		}
	})
}

// TestFaultRateBesideAVictimsReturn: what a small victim returns hides for a moment how fast a leak within
// its request uses memory up. The rate does not become zero by that: the small pods that are left cover it
// no longer, and they stay.
func TestFaultRateBesideAVictimsReturn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(3000)
		n.run("leak", 500, 3000)
		for _, name := range []string{"a", "b", "c", "d"} {
			n.run(name, 38, 5)
		}
		n.host = 1300 * mebi
		for i := range 300 {
			n.after(time.Duration(i)*100*time.Millisecond, func() {
				if leak, there := n.pods["uid-leak"]; there {
					leak.memory += 3 * mebi
				}
			})
		}
		policy := untilExhaustionPolicy()
		policy.Thresholds[0].Quantity = pressure.Absolute(800 * mebi)
		watch(t, n, policy, time.Minute)
		n.wantVictims(t, "a", "leak")
	})
}

// TestFaultPodsOverTheirRequestsTogether: a pod within its request grows for a while, and four pods over
// theirs would cover what it takes together, but none of them alone: it stays.
func TestFaultPodsOverTheirRequestsTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(3000)
		n.run("database", 900, 2000)
		for _, name := range []string{"a", "b", "c", "d"} {
			n.run(name, 200, 0)
		}
		n.host = 850 * mebi
		for i := range 10 {
			n.after(time.Duration(i+5)*time.Second, func() { n.pods["uid-database"].memory += 20 * mebi })
		}
		policy := untilExhaustionPolicy()
		policy.Thresholds[0].Quantity = pressure.Absolute(300 * mebi)
		policy.KubeletHard = []pressure.Threshold{{Signal: pressure.MemoryAvailable, Quantity: pressure.Absolute(299 * mebi), Hard: true}}
		watch(t, n, policy, time.Minute)
		n.wantVictims(t, "a")
	})
}

// TestFaultHostMemoryRunsTowardTheKubeletsLine: memory falls slowly toward the kubelet's threshold: a
// pod is evicted when it is met by evictd's measure. If the threshold is not known, no pod is.
func TestFaultHostMemoryRunsTowardTheKubeletsLine(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		line int64 // MiB; 0 is not known
		gap  int64 // MiB
		want []string
	}{
		{"not known", 0, 60, nil}, // the gap alone is no line
		{"it is met", 65, 0, []string{"a"}},
		{"near", 60, 0, nil},
		{"far", 20, 0, nil},
		{"far, and the kubelet sees less available", 20, 45, []string{"a"}},
		{"it is met, and the kubelet sees more available", 65, -40, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n := hostOnNode(0)
				n.leakFrom(time.Minute, 4*mebi/10, 20*time.Second)
				policy := untilExhaustionPolicy()
				if test.line > 0 {
					policy.KubeletHard = []pressure.Threshold{
						{Signal: pressure.NodeFSAvailable, Quantity: pressure.Absolute(90 * mebi), Hard: true},
						{Signal: pressure.MemoryAvailable, Quantity: pressure.Absolute(test.line * mebi), Hard: true},
					}
				}
				a := newAgent(t, n, policy, func(o *Options) {
					o.KubeletGap = func(time.Time) int64 { return test.gap * mebi }
				})
				runFor(t, a, 5*time.Minute)
				n.wantVictims(t, test.want...)
			})
		})
	}
}

// A step that leaves less than half of the line is no fall, and a reason all the same.
func TestHalfOfTheLineTakesAPodWithinItsRequest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := hostOnNode(0)
		n.after(time.Minute, func() { n.host = 771 * mebi })
		watch(t, n, untilExhaustionPolicy(), 5*time.Minute)
		n.wantVictims(t, "a")
	})
}

// TestPodThatExceedsIsEvictedBeforeExhaustion: the pod that exceeds its request is evicted at once, with
// or without a neighbour within its own.
func TestPodThatExceedsIsEvictedBeforeExhaustion(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := hostOnNode(40)
		n.run("exceeds", 40, 10)
		watch(t, n, untilExhaustionPolicy(), 5*time.Minute)
		n.wantVictims(t, "exceeds")
		if got := n.acted(t).Ranking; len(got.Candidates) != 1 || !slices.ContainsFunc(got.Protected, func(e rank.Entry) bool { return e.Protection == rank.ProtectedWithinRequests }) {
			t.Errorf("%d candidates: %+v", len(got.Candidates), got.Protected)
		}
	})
}

// A soft threshold takes pods that exceed their requests only, even where less than half of
// its line is left.
func TestSoftThresholdTakesNoPodWithinItsRequest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := hostOnNode(0)
		policy := untilExhaustionPolicy()
		policy.Thresholds[0] = pressure.Threshold{Signal: pressure.MemoryAvailable, Quantity: pressure.Absolute(150 * mebi), Grace: time.Second}
		watch(t, n, policy, 5*time.Minute)
		n.wantVictims(t)
		if d := n.last(t); d.Hold != decide.HoldWithinRequests || !strings.HasSuffix(d.Detail, "none of them is evicted for a soft threshold") {
			t.Errorf("held by %q: %s", d.Hold, d.Detail)
		}
	})
}

// TestBestEffortBesidePodsWithinRequests: a budget that blocks the only pod above its request makes
// no other pod a candidate. It may be bypassed as if there were no other pod.
func TestBestEffortBesidePodsWithinRequests(t *testing.T) {
	t.Parallel()
	for _, bestEffort := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			n := hostOnNode(40)
			n.run("exceeds", 40, 10, func(p *corev1.Pod) { p.Status.Conditions = nil })
			n.budgets = map[string]evict.Budget{"shop/guard": {Healthy: 1, Desired: 1}}
			n.answer = func(r evict.Request) evict.Result {
				if r.Delete {
					return evict.Result{Outcome: taken(r)}
				}
				return evict.Result{Outcome: evict.BlockedByBudget, Budget: "guard"}
			}
			policy := untilExhaustionPolicy()
			policy.BestEffort = bestEffort
			watch(t, n, policy, time.Minute)
			if got := n.victims(); len(got) == 0 || slices.ContainsFunc(got, func(name string) bool { return name != "exceeds" }) {
				t.Errorf("evicted %v", got)
			}
			n.mu.Lock()
			defer n.mu.Unlock()
			if there := n.pods["uid-exceeds"] != nil; there == bestEffort {
				t.Errorf("best effort %v: the pod is there: %v", bestEffort, there)
			}
		})
	}
}

// Something else than pods fills a disk. A pod within its request of ephemeral storage stays;
// one without a request exceeds it by what it holds.
func TestFaultDiskPodsWithinRequestsStay(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		request string // of pod b; pod a always has one
		want    []string
	}{
		"both within": {"100", nil},
		"one without": {"0", []string{"b"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n := newFakeNode(1000)
				requests := func(amount string) func(*corev1.Pod) {
					return func(p *corev1.Pod) {
						p.Spec.Containers[0].Resources.Requests[corev1.ResourceEphemeralStorage] = resource.MustParse(amount)
					}
				}
				n.run("a", 10, 0, requests("100"))
				n.run("b", 10, 0, requests(test.request))
				disk := &fakeDisk{node: n, measured: map[string]usage.DiskUse{
					"uid-a": measuretest.DiskUse(100, 1, 0, 0), "uid-b": measuretest.DiskUse(60, 1, 0, 0),
				}}
				policy := diskPolicy(pressure.NodeFSAvailable)
				policy.WithinRequests = decide.WithinRequestsUntilExhaustion
				runDiskBy(t, n, disk, policy, time.Minute)
				n.wantVictims(t, test.want...)
				if d := n.last(t); test.want == nil && (d.Hold != decide.HoldWithinRequests || !strings.Contains(d.Detail, "look at images")) {
					t.Errorf("held by %q: %s", d.Hold, d.Detail)
				}
			})
		})
	}
}

// hostOnNode is a node of 1000 MiB with three pods that use less than they requested, and others
// that use so many MiB. After five seconds a process of the host uses what is left above 70 MiB.
func hostOnNode(others int64) *fakeNode {
	n := newFakeNode(1000)
	n.host = (700 - others) * mebi
	n.run("a", 60, 100)
	n.run("b", 60, 100)
	n.run("c", 60, 100)
	n.after(5*time.Second, func() { n.host = (750 - others) * mebi })
	return n
}

// leakFrom lets the host take so much more each second, for a while.
func (n *fakeNode) leakFrom(start time.Duration, perSecond int64, during time.Duration) {
	const step = 100 * time.Millisecond
	for at := step; at <= during; at += step {
		n.after(start+at, func() { n.host += perSecond * int64(step) / int64(time.Second) })
	}
}

// acted returns the first decision that evicted a pod.
func (n *fakeNode) acted(t *testing.T) decide.Decision {
	t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, d := range n.decisions {
		if d.Verb == decide.Acted {
			return d
		}
	}
	t.Fatal("no pod was evicted")
	return decide.Decision{}
}

func untilExhaustionPolicy() Policy {
	policy := hardPolicy()
	policy.WithinRequests = decide.WithinRequestsUntilExhaustion
	policy.Thresholds[0].Quantity = pressure.Absolute(100 * mebi)
	return policy
}
