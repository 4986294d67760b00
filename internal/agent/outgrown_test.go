package agent

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
)

// leakingNode is a node of 6000 MiB where the pod leak takes memory within its request: 20 MiB a second
// from the tenth second on. Beside it are small pods, some of them over their requests.
func leakingNode() *fakeNode {
	n := newFakeNode(6000)
	n.run("leak", 500, 2000)
	n.run("modest", 120, 100)
	n.run("holder", 13, 8)
	for _, web := range []string{"web-a", "web-b", "web-c"} {
		n.run(web, 45, 64)
	}
	n.run("beat", 10, 32)
	n.host = 6000*mebi - 778*mebi - 900*mebi
	n.growFrom("leak", 10*time.Second, 20*mebi, time.Minute)
	return n
}

// growFrom lets a pod take so much more each second, for a while.
func (n *fakeNode) growFrom(name string, start time.Duration, perSecond int64, during time.Duration) {
	const step = 100 * time.Millisecond
	for at := step; at <= during; at += step {
		n.after(start+at, func() {
			if p := n.pods["uid-"+name]; p != nil && p.api.DeletionTimestamp == nil {
				p.memory += perSecond * int64(step) / int64(time.Second)
			}
		})
	}
}

// shippedPolicy has the thresholds and rules of the default configuration for 6000 MiB.
func shippedPolicy() Policy {
	policy := untilExhaustionPolicy()
	policy.Thresholds = []pressure.Threshold{
		{Signal: pressure.MemoryAvailable, Quantity: pressure.Absolute(300 * mebi), MinReclaim: pressure.Absolute(120 * mebi), Hard: true},
		{Signal: pressure.MemoryAvailable, Quantity: pressure.Absolute(600 * mebi), MinReclaim: pressure.Absolute(120 * mebi), Grace: 30 * time.Second},
	}
	policy.MinimumReclaim = pressure.Fraction(0.05)
	policy.CutGrace = true
	policy.KubeletHard = []pressure.Threshold{{Signal: pressure.MemoryAvailable, Quantity: pressure.Absolute(100 * mebi), Hard: true}}
	return policy
}

// TestLeakWithinItsRequestBesideSmallPods: the leak alone is evicted, once the memory runs out. The
// small pods, whose memory it would use up within seconds, stay.
func TestLeakWithinItsRequestBesideSmallPods(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := leakingNode()
		watch(t, n, shippedPolicy(), 2*time.Minute)
		n.wantVictims(t, "leak")
		victim := n.acted(t)
		if left := victim.Pressure.Observed.Available; left < 200*mebi {
			t.Errorf("%d MiB were left", left/mebi)
		}
		for i := range victim.Ranking.Protected {
			if e := &victim.Ranking.Protected[i]; e.Protection != rank.ProtectedReclaimTooSmall || !strings.HasSuffix(e.Detail, "would be used up within 30s by shop/leak") {
				t.Errorf("%s is protected as %s: %s", e.Pod.Name, e.Protection, e.Detail)
			}
		}
	})
}

// TestSmallPodsBesideALeakThatCannotGo: where the growing pod may not be evicted, or counts for more, or
// is not what uses up the memory, the small pods over their requests are evicted first, as ranked.
func TestSmallPodsBesideALeakThatCannotGo(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(n *fakeNode, policy *Policy){
		"it is protected": func(n *fakeNode, _ *Policy) { n.changed("leak", func(p *corev1.Pod) { p.OwnerReferences = nil }) },
		"pods within their requests are never evicted": func(_ *fakeNode, p *Policy) {
			p.WithinRequests = decide.WithinRequestsAlways
		},
		"pods within their requests are not protected": func(_ *fakeNode, p *Policy) {
			p.WithinRequests = decide.WithinRequestsNever
		},
		"no candidate counts as too small": func(_ *fakeNode, p *Policy) { p.MinimumReclaim = pressure.Quantity{} },
		"it has a higher priority": func(n *fakeNode, _ *Policy) {
			n.changed("leak", func(p *corev1.Pod) { p.Spec.Priority = new(int32(100)) })
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n, policy := leakingNode(), shippedPolicy()
				change(n, &policy)
				watch(t, n, policy, 2*time.Minute)
				if got := n.victims(); len(got) == 0 || got[0] != "modest" {
					t.Errorf("evicted %v, want modest first", got)
				}
			})
		})
	}
}

// hostTakesFrom is a node of 6000 MiB whose host takes 40 MiB a second from the tenth second on, for so
// long. Beside small pods there are three larger ones, within their requests.
func hostTakesFrom(during time.Duration) *fakeNode {
	n := newFakeNode(6000)
	for _, name := range []string{"within-a", "within-b", "within-c"} {
		n.run(name, 750, 800)
		n.pods["uid-"+name].api.Spec.TerminationGracePeriodSeconds = new(int64(3))
	}
	n.run("modest", 120, 100)
	for _, web := range []string{"web-a", "web-b", "web-c"} {
		n.run(web, 60, 64)
	}
	n.run("beat", 10, 32)
	n.host = 6000*mebi - 2560*mebi - 800*mebi
	n.leakFrom(10*time.Second, 40*mebi, during)
	return n
}

// TestHostThatTakesMemoryCostsOnePod: what the small pods hold would be used up within seconds. None is
// evicted for the soft threshold, and when the memory runs out one pod that suffices is.
func TestHostThatTakesMemoryCostsOnePod(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := hostTakesFrom(18 * time.Second)
		watch(t, n, shippedPolicy(), 2*time.Minute)
		n.wantVictims(t, "within-a")
		if d := n.acted(t); !d.Pressure.Threshold.Hard {
			t.Errorf("evicted for the threshold of %v", d.Pressure.Threshold)
		}
		if !slices.Contains(n.holds(), decide.HoldInsufficientReclaim) {
			t.Errorf("holds %v, want one because the reclaim is insufficient", n.holds())
		}
	})
}

// TestHostThatTakesMemoryAfterPodsHaveStarted: pods that were not there at the earlier reading say nothing of
// who takes memory now. The pods are read again when the forecast is near a threshold, not only every 30 seconds.
func TestHostThatTakesMemoryAfterPodsHaveStarted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := hostTakesFrom(18 * time.Second)
		later := map[string]*fakePod{}
		for uid, pod := range n.pods {
			if strings.HasPrefix(uid, "uid-within-") {
				later[uid] = pod
				delete(n.pods, uid)
				n.host += pod.memory
			}
		}
		n.after(3*time.Second, func() {
			for uid, pod := range later {
				n.pods[uid] = pod
				n.host -= pod.memory
			}
		})
		watch(t, n, shippedPolicy(), 2*time.Minute)
		n.wantVictims(t, "within-a")
	})
}

// TestHostThatStopsInTimeCostsNoPod: the host stops between the thresholds, and frees it again.
func TestHostThatStopsInTimeCostsNoPod(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := hostTakesFrom(11 * time.Second)
		n.after(21*time.Second, func() { n.host -= 400 * mebi })
		watch(t, n, shippedPolicy(), 2*time.Minute)
		n.wantVictims(t)
	})
}

// TestHostBesideALeak: the leak is evicted when the memory runs out, although the host takes more.
func TestHostBesideALeak(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := leakingNode()
		n.leakFrom(10*time.Second, 60*mebi, 8*time.Second)
		watch(t, n, shippedPolicy(), time.Minute)
		n.wantVictims(t, "leak")
	})
}
