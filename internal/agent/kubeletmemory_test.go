package agent

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/pkg/pressure"
)

// kubeletsLine is the kubelet's hard threshold in these tests.
const kubeletsLine = 100 * mebi

// cachingNode is a node of 1000 MiB on which a pod reads files. Its page cache is in use, so that
// the kubelet's figure falls by 5 MiB a second, from 350 MiB to what the rest leaves. MemAvailable
// stays above 600 MiB.
func cachingNode(lowest *int64) *fakeNode {
	n := newFakeNode(1000)
	n.hasKubelets, n.host = true, 200*mebi
	n.run("reader", 40, 10)
	n.run("leaky", 60, 10)
	n.run("calm", 50, 100)
	n.pods["uid-reader"].cache = 300 * mebi
	*lowest = n.capacity
	for at := time.Second; at <= 2*time.Minute; at += time.Second {
		n.after(at, func() {
			if reader := n.pods["uid-reader"]; reader != nil && reader.cache < 600*mebi {
				reader.cache += 5 * mebi
			}
			*lowest = min(*lowest, n.kubelets())
		})
	}
	return n
}

// TestPageCacheBringsThePodToItsGraceBeforeTheKubelet: page cache makes the kubelet's figure short
// while MemAvailable is ample. With a threshold on it, the pod that the kubelet would end with one
// second of grace is evicted with its own, before the kubelet's line; without it no pod is, and the
// line is passed.
func TestPageCacheBringsThePodToItsGraceBeforeTheKubelet(t *testing.T) {
	t.Parallel()
	kernel := pressure.Threshold{Signal: pressure.MemoryAvailable, Quantity: pressure.Absolute(100 * mebi), Hard: true}
	kubelets := pressure.Threshold{Signal: pressure.KubeletMemoryAvailable, Quantity: pressure.Absolute(2 * kubeletsLine), Hard: true}
	for _, test := range []struct {
		name       string
		thresholds []pressure.Threshold
		want       []string
	}{
		{"with the signal", []pressure.Threshold{kernel, kubelets}, []string{"reader"}},
		{"without it", []pressure.Threshold{kernel}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var lowest int64
				n := cachingNode(&lowest)
				n.ends = 10 * time.Second
				policy := untilExhaustionPolicy()
				policy.Thresholds = test.thresholds
				policy.KubeletHard = []pressure.Threshold{{Signal: pressure.MemoryAvailable, Quantity: pressure.Absolute(kubeletsLine), Hard: true}}
				watch(t, n, policy, 5*time.Minute)
				n.wantVictims(t, test.want...)
				if passed := lowest < kubeletsLine; passed != (len(test.want) == 0) {
					t.Errorf("the kubelet's figure fell to %d MiB", lowest/mebi)
				}
				for _, r := range n.evictions {
					if r.GraceSeconds != nil {
						t.Errorf("%s gets %d s of grace instead of its own", r.Name, *r.GraceSeconds)
					}
				}
				if len(n.evictions) > 0 {
					checkKubeletsVictim(t, n)
				}
			})
		})
	}
}

// checkKubeletsVictim checks the decision and what the victim's end gave back.
func checkKubeletsVictim(t *testing.T, n *fakeNode) {
	t.Helper()
	d := n.acted(t)
	if use := d.Ranking.Candidates[0].Pod.Usage; d.Pressure.Threshold.Signal != pressure.KubeletMemoryAvailable || use < 400*mebi {
		t.Errorf("%v evicts a pod that uses %d MiB; want the working set", d.Pressure.Threshold, use/mebi)
	}
	if len(n.ended) != 1 {
		t.Fatalf("%d victims have ended", len(n.ended))
	}
	if e := n.ended[0]; e.Signal != pressure.KubeletMemoryAvailable || e.Reclaim == nil || e.Reclaim.Actual < 400*mebi {
		t.Errorf("it gave back %+v of %v", e.Reclaim, e.Signal)
	}
}

// TestKubeletMemoryAndItsLine: a pod within its request is evicted when the kubelet's figure meets
// the kubelet's own line, which needs no conversion.
func TestKubeletMemoryAndItsLine(t *testing.T) {
	t.Parallel()
	for line, want := range map[int64][]string{20: nil, 65: {"a"}} {
		synctest.Test(t, func(t *testing.T) {
			n := hostOnNode(0)
			n.hasKubelets = true
			n.leakFrom(time.Minute, 4*mebi/10, 20*time.Second)
			policy := untilExhaustionPolicy()
			policy.Thresholds[0].Signal = pressure.KubeletMemoryAvailable
			policy.KubeletHard = []pressure.Threshold{
				{Signal: pressure.KubeletMemoryAvailable, Quantity: pressure.Absolute(90 * mebi), Hard: true}, // no signal of the kubelet's
				{Signal: pressure.MemoryAvailable, Quantity: pressure.Absolute(line * mebi), Hard: true},
			}
			a := newAgent(t, n, policy, func(o *Options) {
				o.KubeletGap = func(time.Time) int64 { return 500 * mebi }
			})
			runFor(t, a, 5*time.Minute)
			n.wantVictims(t, want...)
		})
	}
}

// TestUnreadKubeletMemoryStopsMemory guards invariant 1: while the kubelet's figure is unknown, no
// pod is evicted for memory, although MemAvailable is known and below its line.
func TestUnreadKubeletMemoryStopsMemory(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(1000)
		n.run("leaky", 950, 10)
		n.hasKubelets, n.unreadKubelets = true, errPlanted()
		policy := hardPolicy()
		policy.Thresholds = append(policy.Thresholds, pressure.Threshold{
			Signal: pressure.KubeletMemoryAvailable, Quantity: pressure.Absolute(50 * mebi), Hard: true,
		})
		watch(t, n, policy, time.Minute)
		n.wantVictims(t)
		if d := n.last(t); d.Hold != decide.HoldIncompleteReading {
			t.Errorf("held by %q", d.Hold)
		}
	})
}
