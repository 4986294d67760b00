package agent

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/usage"
)

// What the node got back by a victim's end, with all that moves meanwhile.
func TestWhatAVictimsEndGaveBack(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name     string
		change   func(n *fakeNode)
		expected int64 // MiB, when it was accepted
		want     *decide.Reclaimed
	}{
		{"just what it held", func(*fakeNode) {}, 300, &decide.Reclaimed{Expected: 300 * mebi, Actual: 300 * mebi}},
		{"another pod takes half of it at once", func(n *fakeNode) {
			n.after(19500*time.Millisecond, func() { n.pods["uid-other"].memory += 150 * mebi })
		}, 300, &decide.Reclaimed{Expected: 300 * mebi, Actual: 300 * mebi}},
		{"another pod starts, and one ends", func(n *fakeNode) {
			n.after(19500*time.Millisecond, func() {
				delete(n.pods, "uid-small")
				n.pods["uid-new"] = &fakePod{api: &corev1.Pod{}, memory: 70 * mebi}
				n.pods["uid-new"].api.UID = "uid-new"
			})
		}, 300, &decide.Reclaimed{Expected: 300 * mebi, Actual: 300 * mebi}},
		{"it has grown since it was accepted", func(n *fakeNode) {
			n.after(10*time.Second, func() { n.pods["uid-first"].memory += 50 * mebi })
		}, 300, &decide.Reclaimed{Expected: 350 * mebi, Actual: 350 * mebi}},
		{"its processes end some seconds before the pod does", func(n *fakeNode) {
			n.after(16*time.Second, func() { n.pods["uid-first"].memory = 0 })
		}, 300, &decide.Reclaimed{Expected: 300 * mebi, Actual: 300 * mebi}},
		{"its page tables and sockets were in no pod's books", func(n *fakeNode) {
			n.after(16*time.Second, func() {
				n.pods["uid-first"].memory = 0
				n.host -= 40 * mebi
			})
		}, 300, &decide.Reclaimed{Expected: 300 * mebi, Actual: 340 * mebi}},
		{"half of it was another's too", func(n *fakeNode) {
			n.after(16*time.Second, func() {
				n.pods["uid-first"].memory = 0
				n.host += 150 * mebi
			})
		}, 300, &decide.Reclaimed{Expected: 300 * mebi, Actual: 150 * mebi}},
		{"the host took memory while it was waited for, and not at its end", func(n *fakeNode) {
			n.after(10*time.Second, func() { n.host += 100 * mebi })
		}, 300, &decide.Reclaimed{Expected: 300 * mebi, Actual: 300 * mebi}},
		{"the pods cannot be read", func(n *fakeNode) {
			n.after(19500*time.Millisecond, func() { n.unread = errPlanted() })
		}, 300, nil},
		{"the node cannot be read", func(n *fakeNode) {
			n.after(19500*time.Millisecond, func() { n.unknown = errPlanted() })
		}, 300, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n := newFakeNode(1000)
				n.ends = 20 * time.Second
				n.run("first", 300, 0)
				n.run("other", 200, 0)
				n.run("small", 20, 0)
				n.host = 400 * mebi
				test.change(n)
				watch(t, n, hardPolicy(), 25*time.Second)
				if len(n.ended) != 1 {
					t.Fatalf("%d victims ended, want 1; evicted %v", len(n.ended), n.victims())
				}
				e := n.ended[0]
				if e.Victim.UID != "uid-first" || e.Signal != pressure.MemoryAvailable || e.Expected == nil || *e.Expected != test.expected*mebi {
					t.Errorf("ended: %+v", e)
				}
				if e.Took() < 20*time.Second || e.Took() > 21*time.Second || e.Overran() {
					t.Errorf("took %v, overran %v", e.Took(), e.Overran())
				}
				if diff := cmp.Diff(test.want, e.Reclaim); diff != "" {
					t.Errorf("release (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestAVictimThatOverranItsDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(1000)
		n.ends = 46 * time.Second
		n.run("late", 300, 0)
		n.host = 650 * mebi
		watch(t, n, hardPolicy(), time.Minute)
		if len(n.ended) != 1 || !n.ended[0].Overran() || n.ended[0].Took() < n.ends {
			t.Errorf("ended: %+v", n.ended)
		}
	})
}

// TestOnlyWhatEvictdEvictedIsReclaimed: a dry run frees nothing, and a pod that ended without evictd
// is not a victim of evictd's.
func TestOnlyWhatEvictdEvictedIsReclaimed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(1000)
		n.run("first", 300, 0)
		n.host = 650 * mebi
		policy := hardPolicy()
		policy.DryRun = true
		watch(t, n, policy, 2*time.Minute)
		if len(n.ended) != 0 || len(n.evictions) == 0 {
			t.Errorf("%d dry runs, ended: %+v", len(n.evictions), n.ended)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(1000)
		n.run("first", 300, 0)
		n.host = 650 * mebi
		n.terminate("uid-first")
		watch(t, n, hardPolicy(), 10*time.Second)
		if len(n.ended) != 0 || len(n.evictions) != 0 {
			t.Errorf("evicted %v, ended: %+v", n.victims(), n.ended)
		}
	})
}

// TestFollowingAVictimIsCheap: a node without pods in flight pays nothing, and one with them a
// reading a second.
func TestFollowingAVictimIsCheap(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(1000)
		n.ends = 25 * time.Second
		n.run("first", 300, 0)
		a := newAgent(t, n, hardPolicy())
		a.victims.Accept(victimOf300())
		a.warmUp(&pressure.Sample{Time: time.Now()})
		n.collects = 0
		for range 1000 { // 10 s
			a.tick(t.Context())
			time.Sleep(10 * time.Millisecond)
		}
		if n.collects < 9 || n.collects > 11 {
			t.Errorf("read the pods %d times in 10 s, want once a second", n.collects)
		}
	})
}

// growing is a sampler and a reader of cgroups of a pod that grows all the time: by a MiB
// from one reading to the next.
type growing struct{ *fakeNode }

func (g growing) grow() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if pod := g.pods["uid-first"]; pod != nil {
		pod.memory += mebi
	}
}

func (g growing) Sample(now time.Time) pressure.Sample {
	defer g.grow()
	return g.fakeNode.Sample(now)
}

// TestAGrowingVictimIsReadAtOneSize: a victim that keeps growing is read at one size, although a
// tick reads the node and the pods several times.
func TestAGrowingVictimIsReadAtOneSize(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(100_000)
		n.run("first", 300, 0)
		n.run("second", 200, 0)
		n.host = 100_000*mebi - 800*mebi
		a := newAgent(t, n, hardPolicy())
		a.options.Sampler = growing{n}
		ctx, stop := context.WithTimeout(t.Context(), 5*time.Second)
		defer stop()
		if err := a.Run(ctx); err != nil {
			t.Error(err)
		}
		for _, e := range n.ended {
			if e.Reclaim == nil || e.Reclaim.Actual != e.Reclaim.Expected {
				t.Errorf("%s: %+v", e.Victim.Name, e.Reclaim)
			}
		}
		if len(n.ended) == 0 {
			t.Error("no victim has ended")
		}
	})
}

// victimOf300 is a victim of 300 MiB that takes an hour.
func victimOf300() decide.Victim {
	return decide.Victim{
		UID: "uid-first", Expected: pressure.Amounts{}.With(pressure.MemoryAvailable, 300*mebi),
		Signal: "memory.available", Accepted: time.Now(), Deadline: time.Now().Add(time.Hour),
	}
}

// A change of the measure makes the readings before it incomparable.
func TestAnotherMeasureStartsTheBooksAnew(t *testing.T) {
	t.Parallel()
	for measure, known := range map[pressure.MemoryDefinition]bool{pressure.Kernel: true, pressure.WorkingSet: false} {
		synctest.Test(t, func(t *testing.T) {
			n := newFakeNode(1000)
			n.run("first", 300, 0)
			a := newAgent(t, n, hardPolicy())
			a.victims.Accept(victimOf300())
			a.tick(t.Context())
			policy := hardPolicy()
			policy.MemoryAvailable = measure
			a.adopt(enforced(policy))
			delete(n.pods, "uid-first")
			a.tick(t.Context())
			if len(n.ended) != 1 || (n.ended[0].Reclaim != nil) != known {
				t.Errorf("ended: %+v, want its reclaim known: %v", n.ended, known)
			}
		})
	}
}

// What the victim's cgroup told when its eviction was accepted comes with its end.
func TestWhatTheVictimHeldComesWithItsEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(1000)
		n.ends = 5 * time.Second
		n.run("first", 300, 0)
		n.host = 650 * mebi
		a := newAgent(t, n, hardPolicy())
		sockets := int64(40 * mebi)
		a.options.Held = func(uid string) *usage.Detail {
			if uid != "uid-first" {
				t.Errorf("%s is read", uid)
			}
			return &usage.Detail{Sockets: &sockets}
		}
		a.executor = a.newExecutor()
		runFor(t, a, 10*time.Second)
		if len(n.ended) != 1 || n.ended[0].Victim.Held == nil || *n.ended[0].Victim.Held.Sockets != sockets {
			t.Errorf("ended: %+v", n.ended)
		}
	})
}
