package agent

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/evictd/evictd/internal/cooldown"
	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/testing/measuretest"
	"github.com/evictd/evictd/pkg/evict"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
	"github.com/evictd/evictd/pkg/usage"
)

// helpingPolicy is hardPolicy with a line at 100 MiB.
func helpingPolicy() Policy {
	policy := hardPolicy()
	policy.Thresholds[0].Quantity = pressure.Absolute(100 * mebi) // a float32 has no exact tenth
	return policy
}

// A node of 1000 MiB whose line is at 100: what is missing is what the host and the pods
// use above 900.
func TestCandidatesThatWouldHelp(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		setUp  func(n *fakeNode, policy *Policy)
		want   []string // victims
		hold   decide.Hold
		detail string
	}{
		{
			"a process of the host leaks", func(n *fakeNode, _ *Policy) {
				n.host = 910 * mebi
				n.run("a", 10, 0)
				n.run("b", 20, 0)
			},
			[]string{},
			decide.HoldInsufficientReclaim,
			"all 2 candidates together could return 30.0Mi of the 40.0Mi that are missing: look at processes of the host, page cache and kernel memory",
		},
		{
			"they would just suffice", func(n *fakeNode, _ *Policy) {
				n.host = 900 * mebi
				n.run("a", 10, 0)
				n.run("b", 20, 0)
			},
			[]string{"b", "a"},
			decide.HoldReclaimInProgress,
			"",
		},
		{
			"one byte short", func(n *fakeNode, _ *Policy) {
				n.host = 900*mebi + 1
				n.run("a", 10, 0)
				n.run("b", 20, 0)
			},
			[]string{},
			decide.HoldInsufficientReclaim,
			"",
		},
		{
			"the line is just crossed", func(n *fakeNode, _ *Policy) {
				n.host = 899*mebi + 1
				n.run("tiny", 1, 0)
			},
			[]string{"tiny"},
			decide.HoldNone,
			"",
		},
		{
			"only the minimum reclaim is out of reach", func(n *fakeNode, policy *Policy) {
				policy.Thresholds[0].MinReclaim = pressure.Absolute(500 * mebi)
				n.host = 890 * mebi
				n.run("a", 15, 0)
			},
			[]string{"a"},
			decide.HoldReclaimInProgress,
			"",
		},
		{
			"a protected pod leaks", func(n *fakeNode, _ *Policy) {
				n.run("leaker", 930, 0, func(p *corev1.Pod) { p.OwnerReferences = nil })
				n.run("a", 10, 0)
			},
			[]string{},
			decide.HoldInsufficientReclaim,
			"shop/leaker alone uses 930.0Mi and is protected: NoController",
		},
		{
			"no protected pod is that large", func(n *fakeNode, _ *Policy) {
				n.host = 900 * mebi
				n.run("small", 20, 0, func(p *corev1.Pod) { p.OwnerReferences = nil })
				n.run("a", 10, 0)
			},
			[]string{},
			decide.HoldInsufficientReclaim,
			"all 1 candidates together could return 10.0Mi of the 30.0Mi that are missing: look at processes of the host, page cache and kernel memory",
		},
		{
			"above the line, and below the minimum reclaim", func(n *fakeNode, policy *Policy) {
				policy.Thresholds[0].MinReclaim = pressure.Absolute(50 * mebi)
				n.host = 890 * mebi
				n.run("a", 10, 0)
				n.run("b", 20, 0)
				n.after(3*time.Second, func() { n.host = 860 * mebi })
			},
			[]string{"b"},
			decide.HoldRecovered,
			"the threshold is reached, and no pod is evicted for the 40.0Mi that are missing to its minimum reclaim",
		},
		{
			"page cache is available already", func(n *fakeNode, _ *Policy) {
				n.host = 930 * mebi
				n.run("cached", 10, 0)
				n.pods["uid-cached"].cache = 500 * mebi
			},
			[]string{},
			decide.HoldInsufficientReclaim,
			"",
		},
		{
			"page cache counts as used", func(n *fakeNode, policy *Policy) {
				policy.MemoryAvailable, n.countsCache = pressure.WorkingSet, true
				n.host = 430 * mebi
				n.run("cached", 10, 0)
				n.pods["uid-cached"].cache = 500 * mebi
			},
			[]string{"cached"},
			decide.HoldNone,
			"",
		},
		{
			"a small one ahead of one that suffices", func(n *fakeNode, _ *Policy) {
				n.host = 598 * mebi
				n.run("small", 2, 0)
				n.run("leaker", 400, 0, high)
			},
			[]string{"small", "leaker"}, // in their order
			decide.HoldNone,
			"",
		},
		{
			"small ones that suffice together, ahead of one of a higher priority", func(n *fakeNode, _ *Policy) {
				n.host = 500 * mebi
				for i := range 30 {
					n.run("small-"+string(rune('a'+i)), 4, 0)
				}
				n.run("precious", 380, 0, high)
			},
			names("small-", 25),
			decide.HoldNone,
			"",
		},
		{
			"nothing but small ones that suffice together", func(n *fakeNode, _ *Policy) {
				n.host = 880 * mebi
				for i := range 30 {
					n.run("small-"+string(rune('a'+i)), 4, 0)
				}
			},
			names("small-", 25),
			decide.HoldNone,
			"",
		},
		{
			"what is in flight covers a part, and the rest can be had", func(n *fakeNode, _ *Policy) {
				n.host = 840 * mebi
				n.run("leaving", 90, 0)
				n.run("a", 15, 0)
				n.terminate("uid-leaving")
			},
			[]string{},
			decide.HoldReclaimInProgress,
			"",
		},
		{
			"what is in flight covers a part, and the rest cannot be had", func(n *fakeNode, _ *Policy) {
				n.host = 915 * mebi
				n.run("leaving", 10, 0)
				n.run("a", 20, 0)
				n.terminate("uid-leaving")
			},
			[]string{},
			decide.HoldInsufficientReclaim,
			"all 1 candidates together could return 20.0Mi of the 35.0Mi",
		},
		{
			"what is in flight makes the rest small enough", func(n *fakeNode, _ *Policy) {
				n.host = 900 * mebi
				n.run("leaving", 80, 0)
				n.run("a", 20, 0)
				n.terminate("uid-leaving")
			},
			[]string{"a"},
			decide.HoldReclaimInProgress,
			"",
		},
	} {
		for _, hard := range []bool{true, false} {
			t.Run(test.name+map[bool]string{true: ", hard", false: ", soft"}[hard], func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					n := newFakeNode(1000)
					n.stubborn = true
					policy := helpingPolicy()
					policy.Thresholds[0].Hard = hard
					test.setUp(n, &policy)
					watch(t, n, policy, 10*time.Second)
					n.wantVictims(t, test.want...)
					d := n.last(t)
					if test.hold != decide.HoldNone && d.Hold != test.hold {
						t.Errorf("hold %q (%s), want %q", d.Hold, d.Detail, test.hold)
					}
					if !strings.Contains(d.Detail, test.detail) || strings.HasSuffix(test.detail, "memory") && d.Detail != test.detail {
						t.Errorf("detail %q, want %q", d.Detail, test.detail)
					}
				})
			})
		}
	}
}

// TestNearExhaustionAnyPodHelps: what the candidates hold does not suffice, and less than half of the line is
// left: for memory they go, and for a disk they do not.
func TestNearExhaustionAnyPodHelps(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(1000)
		n.stubborn, n.host = true, 950*mebi
		n.run("a", 10, 0)
		n.run("b", 20, 0)
		watch(t, n, helpingPolicy(), 10*time.Second)
		n.wantVictims(t, "b", "a")
	})
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(1000)
		n.run("a", 1, 0)
		policy := diskPolicy(pressure.NodeFSAvailable)
		policy.Thresholds[0].Quantity = pressure.Absolute(200) // 50 are left
		runDiskBy(t, n, &fakeDisk{node: n, measured: map[string]usage.DiskUse{"uid-a": measuretest.DiskUse(149, 1, 1, 1)}}, policy, 10*time.Second)
		n.wantVictims(t)
	})
}

func high(p *corev1.Pod) {
	priority := int32(1000)
	p.Spec.Priority = &priority
}

// names returns so many names in alphabetical order: equal pods go by UID.
func names(prefix string, count int) []string {
	var all []string
	for i := range count {
		all = append(all, prefix+string(rune('a'+i)))
	}
	return all
}

// TestLeakerBehindABudget: the neighbours of a leaker that a budget blocks are not evicted, in the
// tick in which it is refused and in those after it. The leaker is tried again, and the record says
// why.
func TestLeakerBehindABudget(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(1000)
		n.run("leaker", 940, 100)
		n.run("behind", 1, 0, high)
		n.run("last", 2, 0, high)
		n.pods["uid-leaker"].api.Spec.Priority = new(int32(1))
		n.answer = func(evict.Request) evict.Result { return evict.Result{Outcome: evict.BlockedByBudget} }
		watch(t, n, helpingPolicy(), 25*time.Second)
		if diff := cmp.Diff([]string{"leaker", "leaker"}, n.victims()); diff != "" { // after 0 and 10 s
			t.Errorf("evicted (-want +got):\n%s", diff)
		}
		first, held := n.decisions[0], n.decisions[1]
		if want := "2 more were not tried: together they could not free what is missing"; !slices.Contains(first.Notes, want) {
			t.Errorf("notes %q, want %q", first.Notes, want)
		}
		if held.Hold != decide.HoldInsufficientReclaim || !strings.HasSuffix(held.Detail, "; shop/leaker alone uses 940.0Mi and is protected: BackingOff") {
			t.Errorf("second decision: hold %q, detail %q", held.Hold, held.Detail)
		}
		if got := len(n.decisions); got != 4 {
			t.Errorf("%d decisions in 25 s, want a refusal, a hold, a refusal and a hold", got)
		}
	})
}

// reasonsOf returns why the pods of a decision are protected.
func reasonsOf(d *decide.Decision) map[string]rank.Protection {
	reasons := map[string]rank.Protection{}
	for _, e := range d.Ranking.Protected {
		reasons[e.Pod.Name] = e.Protection
	}
	return reasons
}

// Filesystems and tasks are judged in their own unit.
func TestCandidatesThatWouldHelpOnDisk(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		signal pressure.Signal
		uses   map[string]usage.DiskUse // 50 of 1000 are available, 100 are wanted
		want   []string
		detail string
	}{
		{pressure.NodeFSAvailable, map[string]usage.DiskUse{"uid-a": measuretest.DiskUse(20, 90, 90, 90), "uid-b": measuretest.DiskUse(29, 90, 90, 90)}, []string{}, "return 49 of the 50 that are missing: look at images, hostPath"},
		{pressure.NodeFSAvailable, map[string]usage.DiskUse{"uid-a": measuretest.DiskUse(20, 0, 0, 0), "uid-b": measuretest.DiskUse(30, 0, 0, 0)}, []string{"b", "a"}, ""},
		{pressure.NodeFSInodesFree, map[string]usage.DiskUse{"uid-a": measuretest.DiskUse(90, 20, 90, 90), "uid-b": measuretest.DiskUse(90, 29, 90, 90)}, []string{}, "return 49 inodes of the 50 inodes"},
		{pressure.ImageFSAvailable, map[string]usage.DiskUse{"uid-a": measuretest.DiskUse(90, 90, 20, 90), "uid-b": measuretest.DiskUse(90, 90, 29, 90)}, []string{}, "return 49 of the 50"},
		{pressure.ImageFSAvailable, map[string]usage.DiskUse{"uid-a": measuretest.DiskUse(0, 0, 2, 0), "uid-b": measuretest.DiskUse(0, 0, 400, 0)}, []string{"b"}, ""},
		{pressure.ContainerFSInodesFree, map[string]usage.DiskUse{"uid-a": measuretest.DiskUse(90, 90, 90, 20), "uid-b": measuretest.DiskUse(90, 90, 90, 29)}, []string{}, "return 49 inodes"},
	} {
		t.Run(test.signal.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n := newFakeNode(1000)
				n.run("a", 1, 0)
				n.run("b", 1, 0)
				n.stubborn = true
				policy := helpingPolicy()
				policy.Thresholds = []pressure.Threshold{{Signal: test.signal, Quantity: pressure.Fraction(0.1), Hard: true}}
				parts := func(o *Options) {
					o.Sampler, o.Disk = withDisk{n, test.signal}, &fakeDisk{node: n, measured: test.uses}
				}
				a := newAgent(t, n, policy, parts)
				ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
				defer stop()
				if err := a.Run(ctx); err != nil {
					t.Error(err)
				}
				n.wantVictims(t, test.want...)
				if d := n.last(t); test.detail != "" && (d.Hold != decide.HoldInsufficientReclaim || !strings.Contains(d.Detail, test.detail)) {
					t.Errorf("hold %q, detail %q, want %q", d.Hold, d.Detail, test.detail)
				}
			})
		})
	}
}

func TestCandidatesThatWouldHelpWithTasks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(1000)
		n.run("a", 20, 0) // and as many tasks
		n.run("b", 29, 0)
		policy := helpingPolicy()
		policy.Thresholds = []pressure.Threshold{{Signal: pressure.PIDAvailable, Quantity: pressure.Fraction(0.1), Hard: true}}
		a := newAgent(t, n, policy)
		a.options.Sampler = withDisk{n, pressure.PIDAvailable}
		a.tick(t.Context())
		if d := n.last(t); d.Hold != decide.HoldInsufficientReclaim || d.Detail != "all 2 candidates together could return 49 tasks of the 50 tasks that are missing: look at processes of the host" {
			t.Errorf("hold %q, detail %q", d.Hold, d.Detail)
		}
	})
}

// TestNoPodIsInsufficientInAStall: how much of a stall a pod's end removes is unknown, even for a pod
// that uses only page cache, which may be what thrashes.
func TestNoPodIsInsufficientInAStall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(10_000)
		n.ends = time.Hour
		n.run("thrashing", 0, 0)
		n.pods["uid-thrashing"].cache = 500 * mebi
		share := 0.9
		policy := stallPolicy()
		a := newAgent(t, n, policy)
		a.options.Sampler = stalling{n, &share}
		ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
		defer stop()
		if err := a.Run(ctx); err != nil {
			t.Error(err)
		}
		n.wantVictims(t, "thrashing")
	})
}

// TestInsufficientReclaimIsRecordedOnceAndEnds: a hold that continues is not recorded in each tick, and ends
// when evicting a pod can help.
func TestInsufficientReclaimIsRecordedOnceAndEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(1000)
		n.host = 930 * mebi
		n.run("a", 10, 0)
		n.after(20*time.Second, func() { n.pods["uid-a"].memory, n.host = 60*mebi, 880*mebi })
		watch(t, n, helpingPolicy(), 25*time.Second)
		if d := n.decisions[0]; d.Hold != decide.HoldInsufficientReclaim || n.decisions[1].Verb != decide.Acted {
			t.Errorf("decisions %+v", n.decisions)
		}
	})
}

// A pod whose owner has reached its limit stays in the order, and no request is sent for it.
func TestOwnersLimitAndPodBackOffAreNamed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(1000)
		n.run("often", 945, 0)
		n.run("refused", 1, 0)
		n.run("free", 940, 0)
		n.host = -940 * mebi
		policy := helpingPolicy()
		a := newAgent(t, n, policy)
		a.cooldown.SetLimits(cooldown.Limits{PerOwnerPerHour: 2})
		for range 2 {
			a.cooldown.Accept("rs-often", false, time.Now())
		}
		refused := decide.Attempt{Entry: rank.Entry{Pod: &rank.Pod{Namespace: "shop", UID: "uid-refused"}}, Result: evict.Result{Outcome: evict.BlockedByBudget}}
		a.cooldown.Observe(&decide.Decision{Attempts: []decide.Attempt{refused}}, &decide.Report{}, time.Now())
		time.Sleep(time.Second)
		a.tick(t.Context())
		a.takeReport(<-a.executor.Reports())
		d := n.last(t)
		if diff := cmp.Diff(map[string]rank.Protection{"refused": rank.ProtectedBackingOff}, reasonsOf(&d)); diff != "" {
			t.Errorf("protected (-want +got):\n%s", diff)
		}
		if got := d.Ranking.Protected[0].Detail; got != "the last answer was BlockedByBudget" {
			t.Errorf("detail of the one that was refused: %q", got)
		}
		want := "no request is sent for 1 candidates of owners that reached limits.perOwnerPerHour; shop/often: 2 of its owner's pods went in the last hour, limits.perOwnerPerHour is 2"
		if !slices.Contains(d.Notes, want) {
			t.Errorf("notes %q, want %q", d.Notes, want)
		}
		if v := d.Victim(); v == nil || v.Entry.Pod.Name != "free" || v.Entry.Position != 2 || len(d.Ranking.Candidates) != 2 {
			t.Errorf("the victim is not the second of two: %+v", d)
		}
	})
}

// A tenant within its guarantee stays although its neighbours are refused for the moment.
func TestGuaranteeOutlastsARefusal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(1000)
		n.run("kept", 300, 0, func(p *corev1.Pod) { p.Namespace = "tenant" })
		n.run("refused", 640, 0)
		n.answer = func(evict.Request) evict.Result { return evict.Result{Outcome: evict.BlockedByBudget} }
		policy := helpingPolicy()
		policy.Rules.Queues = []rank.Queue{{
			Name: "tenant", GuaranteedMemory: 400 * mebi,
			Holds: func(namespace string, _ map[string]string) bool { return namespace == "tenant" },
		}}
		watch(t, n, policy, 5*time.Second)
		n.wantVictims(t, "refused")
		if d := n.last(t); d.Hold != decide.HoldBackingOff || d.Detail != "all 1 candidates were refused a short while ago" {
			t.Errorf("hold %q, detail %q", d.Hold, d.Detail)
		}
	})
}
