package agent

import (
	"context"
	"maps"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/measure"
	"github.com/evictd/evictd/internal/nodepods"
	"github.com/evictd/evictd/internal/testing/measuretest"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/usage"
)

// fakeDisk measures the disk use of a fakeNode's pods. A pod's use of the image filesystem is given
// by its name, so that each filesystem has an order of its own. Figures without a time are as old
// as the request for them.
type fakeDisk struct {
	node     *fakeNode
	slow     time.Duration
	err      error
	asked    atomic.Int64
	measured map[string]usage.DiskUse
}

func (d *fakeDisk) Measure(ctx context.Context, _ []*nodepods.Pod) (map[string]usage.DiskUse, error) {
	d.asked.Add(1)
	asked := time.Now()
	select {
	case <-time.After(d.slow + time.Millisecond):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	d.node.mu.Lock()
	defer d.node.mu.Unlock()
	measured := maps.Clone(d.measured)
	for uid, use := range measured {
		if use.Time.IsZero() {
			use.Time = asked
			measured[uid] = use
		}
	}
	return measured, d.err
}

// withDisk is a fakeNode whose filesystems are short of what the test says.
type withDisk struct {
	*fakeNode
	short pressure.Signal
}

func (w withDisk) Sample(now time.Time) pressure.Sample {
	sample := w.fakeNode.Sample(now)
	available := int64(50)
	if w.ended() {
		available = 500
	}
	sample.Observations[w.short] = pressure.Observation{State: pressure.Known, Available: available, Capacity: 1000}
	return sample
}

// ended reports whether a victim has ended, so that its files are removed.
func (w withDisk) ended() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.pods) < 2
}

// runDisk runs an agent on a node that is short of the signal.
func runDisk(t *testing.T, n *fakeNode, disk *fakeDisk, short pressure.Signal, during time.Duration) {
	t.Helper()
	runDiskBy(t, n, disk, diskPolicy(short), during)
}

// diskPolicy requires 100 of the 1000 that there are.
func diskPolicy(short pressure.Signal) Policy {
	policy := hardPolicy()
	policy.Thresholds = []pressure.Threshold{{Signal: short, Quantity: pressure.Absolute(100), Hard: true}}
	return policy
}

func runDiskBy(t *testing.T, n *fakeNode, disk *fakeDisk, policy Policy, during time.Duration) {
	t.Helper()
	a := newAgent(t, n, policy, func(o *Options) { o.Sampler, o.Disk = withDisk{n, policy.Thresholds[0].Signal}, disk })
	ctx, stop := context.WithTimeout(t.Context(), during)
	defer stop()
	if err := a.Run(ctx); err != nil {
		t.Error(err)
	}
	synctest.Wait()
}

// Each signal ranks by what is used of its own filesystem, bytes or inodes.
func TestDiskVictimIsTheOneThatFilledThatFilesystem(t *testing.T) {
	t.Parallel()
	for signal, want := range map[pressure.Signal]string{
		pressure.NodeFSAvailable:       "a",
		pressure.NodeFSInodesFree:      "b",
		pressure.ImageFSAvailable:      "c",
		pressure.ImageFSInodesFree:     "d",
		pressure.ContainerFSAvailable:  "c",
		pressure.ContainerFSInodesFree: "d",
	} {
		t.Run(signal.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n := newFakeNode(1000)
				disk := &fakeDisk{node: n, slow: time.Second, measured: map[string]usage.DiskUse{
					"uid-a": measuretest.DiskUse(400, 1, 1, 1), "uid-b": measuretest.DiskUse(1, 400, 1, 1),
					"uid-c": measuretest.DiskUse(1, 1, 400, 1), "uid-d": measuretest.DiskUse(1, 1, 1, 400),
				}}
				for _, name := range []string{"a", "b", "c", "d"} {
					n.run(name, 1, 0)
				}
				n.stubborn = true
				runDisk(t, n, disk, signal, 20*time.Second)
				n.wantVictims(t, want)
				if d := n.decisions[0]; d.Hold != decide.HoldUsageUnknown || d.Detail != "measuring the pods' disk use" {
					t.Errorf("the record does not say that it is being measured: %+v", d)
				}
			})
		})
	}
}

// TestDiskIsMeasuredOnceAndHoldsUpNothing: one measurement at a time, and the loop keeps ticking
// meanwhile.
func TestDiskIsMeasuredOnceAndHoldsUpNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(1000)
		n.run("a", 1, 0)
		n.run("b", 1, 0)
		disk := &fakeDisk{node: n, slow: 8 * time.Second, measured: map[string]usage.DiskUse{"uid-a": measuretest.DiskUse(400, 1, 1, 1)}}
		runDisk(t, n, disk, pressure.NodeFSAvailable, 7*time.Second)
		if got := disk.asked.Load(); got != 1 || n.samples < 20 {
			t.Errorf("%d measurements and %d samples in 7 s, want 1 and many", got, n.samples)
		}
	})
}

// TestDiskUseThatIsNotKnownEvictsNoPod: a measurement that failed or took too long evicts no pod
// and is repeated.
func TestDiskUseThatIsNotKnownEvictsNoPod(t *testing.T) {
	t.Parallel()
	for name, disk := range map[string]*fakeDisk{
		"it fails":       {err: errPlanted()},
		"it takes hours": {slow: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n := newFakeNode(1000)
				disk.node = n
				n.run("a", 1, 0)
				n.run("b", 1, 0)
				runDisk(t, n, disk, pressure.NodeFSAvailable, time.Minute)
				if len(n.evictions) != 0 || len(n.readFault) == 0 || n.readFault[0] != measure.SourceDisk {
					t.Errorf("%d evictions, read errors of %v", len(n.evictions), n.readFault)
				}
				if got := disk.asked.Load(); got < 2 || got > 7 {
					t.Errorf("measured %d times in a minute, want a few times", got)
				}
			})
		})
	}
}

// TestDiskUseOfSomePodsIsNotKnown: whether a pod filled the disk is unknown when it was not
// measured completely. A pod is evicted only when what is known would free the 50 that are missing.
func TestDiskUseOfSomePodsIsNotKnown(t *testing.T) {
	t.Parallel()
	partly := func(counted int64) usage.DiskUse {
		use := measuretest.DiskUse(counted, 1, 1, 1)
		use.NodeFS[usage.Layers].BytesKnown = false
		return use
	}
	for _, test := range []struct {
		name     string
		measured map[string]usage.DiskUse
		want     []string
		detail   string
	}{
		{"one is missing and the other suffices", map[string]usage.DiskUse{"uid-old": measuretest.DiskUse(50, 1, 1, 1)}, []string{"old"}, ""},
		{
			"one is missing and the other does not suffice",
			map[string]usage.DiskUse{"uid-old": measuretest.DiskUse(49, 1, 1, 1)},
			[]string{},
			"the candidates are known to hold less than the 50 that are needed, and of 1 pods not all could be measured: shop/new",
		},
		{"all are missing", map[string]usage.DiskUse{}, []string{}, "of 2 pods not all could be measured: shop/new, shop/old"},
		{"what was counted of one suffices", map[string]usage.DiskUse{"uid-old": measuretest.DiskUse(5, 1, 1, 1), "uid-new": partly(50)}, []string{"new"}, ""},
		{
			"what was counted does not suffice",
			map[string]usage.DiskUse{"uid-old": measuretest.DiskUse(5, 1, 1, 1), "uid-new": partly(49)},
			[]string{},
			"shop/new",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n := newFakeNode(1000)
				n.run("new", 1, 0)
				n.run("old", 1, 0)
				policy := diskPolicy(pressure.NodeFSAvailable)
				runDiskBy(t, n, &fakeDisk{node: n, measured: test.measured}, policy, 30*time.Second+5*time.Second)
				n.wantVictims(t, test.want...)
				if d := n.decisions[len(n.decisions)-1]; test.detail != "" && (d.Hold != decide.HoldUsageUnknown || !strings.Contains(d.Detail, test.detail) || d.Breakdown == nil) {
					t.Errorf("the last decision: %s (%s), %v", d.Hold, d.Detail, d.Breakdown)
				}
			})
		})
	}
}

// TestDiskThatWasFilledElsewhere: candidates that together do not reach the line of a disk stay: the pods
// that filled it are not among them.
func TestDiskThatWasFilledElsewhere(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name       string
		line, held int64 // 50 are available
		want       []string
		detail     string
	}{
		{"they reach it", 51, 1, []string{"a"}, ""},
		{
			"they do not", 90, 4,
			[]string{},
			"all 2 candidates together could return 4 of the 40 that are missing: look at images, hostPath volumes, files of the host and deleted files that are still open",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n := newFakeNode(1000)
				n.run("a", 1, 0)
				n.run("b", 1, 0)
				n.stubborn = true
				policy := diskPolicy(pressure.NodeFSAvailable)
				policy.Thresholds[0].Quantity = pressure.Absolute(test.line)
				disk := &fakeDisk{node: n, measured: map[string]usage.DiskUse{
					"uid-a": measuretest.PartsOf(false, test.held, 0, 0, 0), "uid-b": measuretest.PartsOf(false, 0, 0, 0, 0),
				}}
				runDiskBy(t, n, disk, policy, 5*time.Second)
				n.wantVictims(t, test.want...)
				d := n.decisions[len(n.decisions)-1]
				if test.detail != "" && (d.Hold != decide.HoldInsufficientReclaim || d.Detail != test.detail || d.Breakdown[decide.PartOther] != 950-test.held) {
					t.Errorf("the last decision: %s (%s), %v", d.Hold, d.Detail, d.Breakdown)
				}
			})
		})
	}
}

// While a pressure lasts, its figures are renewed before they are too old, however long that
// takes, so that what is said about it does not change to and fro.
func TestDiskIsMeasuredAgainInTime(t *testing.T) {
	t.Parallel()
	for _, slow := range []time.Duration{time.Second, 6 * time.Second, decide.DiskTimeout - time.Millisecond} {
		t.Run(slow.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n := newFakeNode(1000)
				n.run("a", 1, 0)
				n.run("b", 1, 0)
				policy := diskPolicy(pressure.NodeFSAvailable)
				disk := &fakeDisk{node: n, slow: slow, measured: map[string]usage.DiskUse{"uid-a": measuretest.DiskUse(9, 1, 1, 1), "uid-b": measuretest.DiskUse(9, 1, 1, 1)}}
				runDiskBy(t, n, disk, policy, 5*time.Minute)
				if diff := cmp.Diff([]decide.Hold{decide.HoldUsageUnknown, decide.HoldInsufficientReclaim}, n.holds()); diff != "" {
					t.Errorf("holds (-want +got):\n%s", diff)
				}
				if got := disk.asked.Load(); got < 20 || got > 40 {
					t.Errorf("measured %d times in 5 minutes", got)
				}
			})
		})
	}
}

// One pod that cannot start must not silence the node: what is known is told, at least.
func TestPodThatCannotStartLeavesTheBreakdown(t *testing.T) {
	t.Parallel()
	cut := measuretest.PartsOf(false, 4, 0, 0, 0)
	cut.NodeFS[usage.Volumes].BytesKnown = false
	refused := cut
	refused.Reason = "counting the emptyDir: permission denied"
	for _, test := range []struct {
		name    string
		another map[string]usage.DiskUse
		detail  string
		want    decide.Breakdown
	}{
		{
			"it has no figures", nil,
			"of 1 pods not all could be measured: shop/broken; of shop/broken: no figures, as of a pod that has not started",
			decide.Breakdown{decide.PartLayers: 9},
		},
		{
			"rights are missing",
			map[string]usage.DiskUse{"uid-broken": refused},
			"shop/broken; of shop/broken: counting the emptyDir: permission denied",
			decide.Breakdown{decide.PartLayers: 13},
		},
		{
			"rights are missing, and a pod has not started",
			map[string]usage.DiskUse{"uid-small": refused},
			"shop/broken, shop/small; of shop/small: counting the emptyDir: permission denied",
			decide.Breakdown{decide.PartLayers: 4},
		},
		{
			"the kubelet has not all yet",
			map[string]usage.DiskUse{"uid-broken": cut},
			"shop/broken; of shop/broken: the kubelet does not have all its figures yet",
			decide.Breakdown{decide.PartLayers: 13},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n := newFakeNode(1000)
				n.run("small", 1, 0)
				n.run("broken", 1, 0)
				measured := map[string]usage.DiskUse{"uid-small": measuretest.PartsOf(false, 9, 0, 0, 0)}
				maps.Copy(measured, test.another)
				runDisk(t, n, &fakeDisk{node: n, measured: measured}, pressure.NodeFSAvailable, 30*time.Second+5*time.Second)
				d := n.last(t)
				if d.Hold != decide.HoldUsageUnknown || !strings.HasSuffix(d.Detail, test.detail) {
					t.Errorf("hold %q (%s), want %q", d.Hold, d.Detail, test.detail)
				}
				if diff := cmp.Diff(test.want, d.Breakdown); diff != "" {
					t.Errorf("breakdown (-want +got):\n%s", diff)
				}
				n.wantVictims(t)
			})
		})
	}
}

// TestDiskThatTheHostFills: the host fills a disk slowly. Each of the pods reaches the line when it is just missed, and all of them together do not last for 30 s: none goes.
func TestDiskThatTheHostFills(t *testing.T) {
	t.Parallel()
	for held, want := range map[int64][]string{9: {}, 40: {"a"}} {
		synctest.Test(t, func(t *testing.T) {
			n := &spaceNode{
				fakeNode: newFakeNode(1000), signal: pressure.NodeFSAvailable, started: time.Now(), ended: map[string]time.Time{},
				available: sloped(0, 80*time.Second, 120*mebi, 40*mebi),
			}
			n.stubborn = true
			disk := &fakeDisk{node: n.fakeNode, measured: map[string]usage.DiskUse{}}
			for _, name := range []string{"a", "b", "c"} {
				n.run(name, 1, 0)
				disk.measured["uid-"+name] = measuretest.PartsOf(false, held*mebi, 0, 0, 0)
			}
			policy := diskPolicy(n.signal)
			policy.Thresholds[0].Quantity = pressure.Absolute(100 * mebi)
			a := newAgent(t, n.fakeNode, policy, func(o *Options) { o.Sampler, o.Disk = n, disk })
			runFor(t, a, 40*time.Second)
			n.wantVictims(t, want...)
			if d := n.last(t); held == 9 && (d.Hold != decide.HoldInsufficientReclaim || !strings.Contains(d.Detail, "that are missing or are used up within 30s")) {
				t.Errorf("hold %q (%s)", d.Hold, d.Detail)
			}
		})
	}
}

// The host has filled a disk and given a little back, so that the line is there again and the minimum
// reclaim above it is not: no pod goes for that. Of 1000 the line is 100 and the target 150; 99 are
// available, and 101 later.
func TestDiskBetweenTheLineAndTheMinimumReclaim(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := &spaceNode{
			fakeNode: newFakeNode(1000), signal: pressure.NodeFSAvailable, started: time.Now(), ended: map[string]time.Time{},
			available: steps(map[time.Duration]int64{0: 99, time.Second: 101}),
		}
		n.run("a", 1, 0)
		disk := &fakeDisk{node: n.fakeNode, slow: 2 * time.Second, measured: map[string]usage.DiskUse{"uid-a": measuretest.PartsOf(false, 60, 0, 0, 0)}}
		policy := diskPolicy(n.signal)
		policy.Thresholds[0].MinReclaim = pressure.Absolute(50)
		a := newAgent(t, n.fakeNode, policy, func(o *Options) { o.Sampler, o.Disk = n, disk })
		runFor(t, a, 30*time.Second+10*time.Second)
		n.wantVictims(t)
		if d := n.last(t); d.Hold != decide.HoldRecovered || !strings.Contains(d.Detail, "for the 49 that are missing to its minimum reclaim") {
			t.Errorf("hold %q (%s)", d.Hold, d.Detail)
		}
	})
}

// After a victim's end the disk is measured again before the next one is chosen.
func TestDiskIsMeasuredAgainAfterAVictimsEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(1000)
		n.ends = 2 * time.Second
		for _, name := range []string{"a", "b", "c"} {
			n.run(name, 1, 0)
		}
		disk := &fakeDisk{node: n, measured: map[string]usage.DiskUse{
			"uid-a": measuretest.DiskUse(30, 1, 1, 1), "uid-b": measuretest.DiskUse(20, 1, 1, 1), "uid-c": measuretest.DiskUse(60, 1, 1, 1),
		}}
		n.after(time.Second, func() { // while c ends, b grows
			disk.measured = map[string]usage.DiskUse{"uid-a": measuretest.DiskUse(30, 1, 1, 1), "uid-b": measuretest.DiskUse(90, 1, 1, 1)}
		})
		runDisk(t, n, disk, pressure.NodeFSAvailable, decide.CollectedWithin+4*time.Second)
		n.wantVictims(t, "c", "b")
	})
}

func TestAgentWithoutASourceOfDiskUse(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(1000)
		n.run("a", 1, 0)
		n.run("b", 1, 0)
		policy := hardPolicy()
		policy.Thresholds[0].Signal = pressure.NodeFSAvailable
		a := newAgent(t, n, policy)
		a.options.Sampler = withDisk{n, pressure.NodeFSAvailable}
		a.tick(t.Context())
		if d := n.last(t); d.Hold != decide.HoldUsageUnknown || len(n.evictions) != 0 {
			t.Errorf("%d evictions; decision %+v", len(n.evictions), d)
		}
	})
}
