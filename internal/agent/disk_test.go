package agent

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/evictd/evictd/internal/nodepods"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
	"github.com/evictd/evictd/pkg/usage"
)

// fakeDisk measures the disk use of a fakeNode's pods: what they use of the image
// filesystem is their name's, so that each filesystem has an order of its own.
type fakeDisk struct {
	node     *fakeNode
	slow     time.Duration
	err      error
	asked    atomic.Int64
	measured map[string]usage.DiskUse
}

func (d *fakeDisk) Measure(ctx context.Context, _ []*corev1.Pod) (map[string]usage.DiskUse, error) {
	d.asked.Add(1)
	select {
	case <-time.After(d.slow):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	d.node.mu.Lock()
	defer d.node.mu.Unlock()
	return d.measured, d.err
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

// ended reports whether a victim has gone, and its files with it.
func (w withDisk) ended() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.pods) < 2
}

func diskUseOf(nodeBytes, nodeInodes, imageBytes, imageInodes int64) usage.DiskUse {
	return usage.DiskUse{
		NodeFS:  usage.FSUse{Bytes: nodeBytes, BytesKnown: true, Inodes: nodeInodes, InodesKnown: true},
		ImageFS: usage.FSUse{Bytes: imageBytes, BytesKnown: true, Inodes: imageInodes, InodesKnown: true},
	}
}

// runDisk runs an agent on a node that is short of the signal.
func runDisk(t *testing.T, n *fakeNode, disk *fakeDisk, short pressure.Signal, during time.Duration) {
	t.Helper()
	policy := hardPolicy()
	policy.Thresholds = []pressure.Threshold{{Signal: short, Quantity: pressure.Fraction(0.1), Hard: true}}
	a := newAgent(t, n, policy)
	a.options.Sampler, a.options.Disk = withDisk{n, short}, disk
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
					"uid-a": diskUseOf(400, 1, 1, 1), "uid-b": diskUseOf(1, 400, 1, 1),
					"uid-c": diskUseOf(1, 1, 400, 1), "uid-d": diskUseOf(1, 1, 1, 400),
				}}
				for _, name := range []string{"a", "b", "c", "d"} {
					n.run(name, 1, 0)
				}
				n.stubborn = true
				runDisk(t, n, disk, signal, 20*time.Second)
				if diff := cmp.Diff([]string{want}, n.victims()); diff != "" {
					t.Errorf("victims (-want +got):\n%s", diff)
				}
				if d := n.decisions[0]; d.Hold != HoldUsageUnknown || d.Detail != "measuring the pods' disk use" {
					t.Errorf("the record does not say that it is being measured: %+v", d)
				}
			})
		})
	}
}

// One measurement at a time, and the loop goes on ticking meanwhile.
func TestDiskIsMeasuredOnceAndHoldsUpNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(1000)
		n.run("a", 1, 0)
		n.run("b", 1, 0)
		disk := &fakeDisk{node: n, slow: 8 * time.Second, measured: map[string]usage.DiskUse{"uid-a": diskUseOf(400, 1, 1, 1)}}
		runDisk(t, n, disk, pressure.NodeFSAvailable, 7*time.Second)
		if got := disk.asked.Load(); got != 1 || n.samples < 20 {
			t.Errorf("%d measurements and %d samples in 7 s, want 1 and many", got, n.samples)
		}
	})
}

// A measurement that failed or took too long evicts nobody and is made again.
func TestDiskUseThatIsNotKnownEvictsNobody(t *testing.T) {
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
				if len(n.evictions) != 0 || len(n.readFault) == 0 || n.readFault[0] != SourceSummary {
					t.Errorf("%d evictions, read errors of %v", len(n.evictions), n.readFault)
				}
				if got := disk.asked.Load(); got < 2 || got > 7 {
					t.Errorf("measured %d times in a minute, want a few times", got)
				}
			})
		})
	}
}

// A pod that the measurement does not tell of is not ranked.
func TestDiskUseOfSomePodsIsNotKnown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(1000)
		n.run("new", 1, 0)
		n.run("old", 1, 0)
		partly := diskUseOf(900, 900, 900, 900)
		partly.NodeFS.BytesKnown = false
		disk := &fakeDisk{node: n, measured: map[string]usage.DiskUse{"uid-old": diskUseOf(5, 1, 1, 1), "uid-new": partly}}
		runDisk(t, n, disk, pressure.NodeFSAvailable, 5*time.Second)
		if diff := cmp.Diff([]string{"old"}, n.victims()); diff != "" {
			t.Errorf("victims (-want +got):\n%s", diff)
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
			"uid-a": diskUseOf(30, 1, 1, 1), "uid-b": diskUseOf(20, 1, 1, 1), "uid-c": diskUseOf(60, 1, 1, 1),
		}}
		n.after(time.Second, func() { // while c ends, b grows
			disk.measured = map[string]usage.DiskUse{"uid-a": diskUseOf(30, 1, 1, 1), "uid-b": diskUseOf(90, 1, 1, 1)}
		})
		runDisk(t, n, disk, pressure.NodeFSAvailable, 4*time.Second)
		if diff := cmp.Diff([]string{"c", "b"}, n.victims()); diff != "" {
			t.Errorf("victims (-want +got):\n%s", diff)
		}
		if got := disk.asked.Load(); got != 2 {
			t.Errorf("measured %d times, want 2", got)
		}
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
		if d := n.last(t); d.Hold != HoldUsageUnknown || len(n.evictions) != 0 {
			t.Errorf("%d evictions; decision %+v", len(n.evictions), d)
		}
	})
}

// RankNow goes the agent's own way: the same pods in the same order.
func TestRankNow(t *testing.T) {
	t.Parallel()
	n := newFakeNode(1000)
	n.run("self", 500, 0)
	n.run("modest", 100, 200)
	n.run("greedy", 300, 100)
	n.run("unread", 300, 0)
	n.pods["uid-unread"].noCgroup = true
	source := Source{
		Cgroups: n, Self: nodepods.Self{UID: "uid-self"},
		Disk: &fakeDisk{node: n, measured: map[string]usage.DiskUse{"uid-modest": diskUseOf(9, 9, 9, 9), "uid-greedy": diskUseOf(5, 5, 5, 5)}},
	}
	for signal, want := range map[pressure.Signal][]string{
		pressure.MemoryAvailable: {"greedy", "modest"},
		pressure.PIDAvailable:    {"greedy", "modest"},
		pressure.NodeFSAvailable: {"modest", "greedy"},
	} {
		ranking, unread, err := RankNow(t.Context(), signal, n.List(), source, rank.Rules{})
		if err != nil || unread != nil {
			t.Fatalf("%v: %v, %v", signal, err, unread)
		}
		var names []string
		for _, e := range ranking.Candidates {
			names = append(names, e.Pod.Name)
		}
		if diff := cmp.Diff(want, names); diff != "" {
			t.Errorf("%v (-want +got):\n%s", signal, diff)
		}
		reasons := map[string]rank.Protection{}
		for _, e := range ranking.Protected {
			reasons[e.Pod.Name] = e.Protection
		}
		if diff := cmp.Diff(map[string]rank.Protection{"self": rank.ProtectedSelf, "unread": rank.ProtectedUnsampled}, reasons); diff != "" {
			t.Errorf("%v, protected (-want +got):\n%s", signal, diff)
		}
	}
}

func TestRankNowWithoutAReading(t *testing.T) {
	t.Parallel()
	n := newFakeNode(1000)
	n.run("a", 1, 0)
	n.unread = errPlanted()
	source := Source{Cgroups: n, Disk: &fakeDisk{node: n, err: errPlanted()}}
	for _, signal := range []pressure.Signal{pressure.MemoryAvailable, pressure.NodeFSAvailable} {
		if ranking, _, err := RankNow(t.Context(), signal, n.List(), source, rank.Rules{}); err == nil {
			t.Errorf("%v: a ranking from nothing: %+v", signal, ranking)
		}
	}
}
