package sim

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/evictd/evictd/internal/agent"
	"github.com/evictd/evictd/internal/cooldown"
	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/pkg/evict"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
	"github.com/evictd/evictd/pkg/usage"
)

// small are so many pods of 4 MiB, in their order.
func small(count int) (pods, names []string) {
	for i := range count {
		names = append(names, "small-"+string(rune('a'+i)))
		pods = append(pods, names[i]+" 4/0")
	}
	return pods, names
}

// A node of 1000 MiB whose line is at 100: what is missing is what the host and the pods use above 900. A soft threshold
// and a hard one say the same. The figures themselves are in the tables of internal/decide.
func TestCandidatesThatWouldHelp(t *testing.T) {
	thirty, names := small(30)
	host := func(amount int64, pods ...string) func(n *world) {
		return func(n *world) {
			n.host = amount * Mebi
			n.runs(pods...)
		}
	}
	leaving := func(amount int64, pods ...string) func(n *world) {
		return func(n *world) {
			host(amount, pods...)(n)
			n.terminate("uid-leaving")
		}
	}
	const insufficient, covered = decide.HoldInsufficientReclaim, decide.HoldReclaimInProgress
	type variant struct {
		setUp  func(n *world)
		want   []string // victims
		hold   decide.Hold
		detail string
	}
	all := map[string]variant{
		"a process of the host leaks": {
			host(910, "a 10/0", "b 20/0"), nil, insufficient,
			"all 2 candidates together could return 30.0Mi of the 40.0Mi that are needed: look at processes of the host, page cache and kernel memory",
		},
		"they would just suffice": {host(900, "a 10/0", "b 20/0"), []string{"b", "a"}, covered, ""},
		"the line is just crossed": {func(n *world) {
			host(899, "tiny 1/0")(n)
			n.host++
		}, []string{"tiny"}, decide.HoldNone, ""},
		"only the minimum reclaim is out of reach": {func(n *world) {
			n.policy.Thresholds[0].MinReclaim = mebi(500)
			host(890, "a 15/0")(n)
		}, []string{"a"}, covered, ""},
		"a protected pod leaks": {func(n *world) {
			n.Run("leaker", 930, 0, bare)
			n.runs("a 10/0")
		}, nil, insufficient, "shop/leaker alone uses 930.0Mi and is protected: NoController"},
		"above the line, and below the minimum reclaim": {func(n *world) {
			n.policy.Thresholds[0].MinReclaim = mebi(50)
			host(890, "a 10/0", "b 20/0")(n)
			n.After(3*time.Second, func() { n.host = 860 * Mebi })
		}, []string{"b"}, decide.HoldRecovered, "the threshold is reached, and no pod is evicted for its minimum reclaim alone"},
		"page cache is available already": {func(n *world) {
			host(930, "cached 10/0")(n)
			n.pod("cached").cache = 500 * Mebi
		}, nil, insufficient, ""},
		"page cache counts as used, and what is in flight in the same measure": {func(n *world) {
			n.policy.MemoryAvailable, n.countsCache = pressure.WorkingSet, true
			host(430, "cached 10/0", "next 9/0")(n)
			n.pod("cached").cache = 500 * Mebi
		}, []string{"cached"}, covered, ""},
		"small ones that suffice together, ahead of one of a higher priority": {func(n *world) {
			host(500, thirty...)(n)
			n.Run("precious", 380, 0, high)
		}, names[:25], decide.HoldNone, ""},
		"what is in flight covers a part, and the rest can be had": {leaving(840, "leaving 90/0", "a 15/0"), nil, covered, ""},
		"what is in flight covers a part, and the rest cannot be had": {
			leaving(915, "leaving 10/0", "a 20/0"), nil, insufficient, "all 1 candidates together could return 20.0Mi of the 35.0Mi",
		},
		"what is in flight makes the rest small enough": {leaving(900, "leaving 80/0", "a 20/0"), []string{"a"}, covered, ""},
	}
	for name, c := range maps.Clone(all) {
		all[name+", softly"] = variant{func(n *world) {
			n.policy.Thresholds[0].Hard = false
			c.setUp(n)
		}, c.want, c.hold, c.detail}
	}
	stories(t, all, func(n *world, _ string, c variant) {
		n.stubborn = true
		n.line(100)
		c.setUp(n)
		n.evicts(10*time.Second, c.want...)
		if c.hold != decide.HoldNone {
			n.says(c.hold, c.detail)
		}
	})
}

// The neighbours of a leaker that a budget blocks are not evicted, in the tick in which it is refused and in those
// after it. The leaker is tried again, and the record says why.
func TestLeakerBehindABudget(t *testing.T) {
	story(t, func(n *world) {
		n.line(100)
		n.Run("leaker", 940, 100, func(p *corev1.Pod) { p.Spec.Priority = new(int32(1)) })
		n.Run("behind", 1, 0, high)
		n.Run("last", 2, 0, high)
		n.answers(outcomes{"": evict.BlockedByBudget})
		n.watch(25 * time.Second)
		n.evicted("leaker", "leaker") // after 0 and 10 s
		first, held := n.decisions[0], n.decisions[1]
		if want := "2 more were not tried: together they could not free what is missing"; !slices.Contains(first.Notes, want) {
			t.Errorf("notes %q, want %q", first.Notes, want)
		}
		n.isHold(&held, decide.HoldInsufficientReclaim, "; shop/leaker alone uses 940.0Mi and is protected: BackingOff")
		if got := len(n.decisions); got != 4 {
			t.Errorf("%d decisions in 25 s, want a refusal, a hold, a refusal and a hold", got)
		}
	})
}

// Filesystems and tasks are judged in their own unit: 50 of 1000 are available, 100 are wanted. Where less than half of
// the line is left any pod helps; of a disk none does.
func TestCandidatesThatWouldHelpOnDisk(t *testing.T) {
	const tasks = pressure.PIDAvailable
	type variant struct {
		signal pressure.Signal
		a, b   usage.DiskUse
		line   int64
		want   []string
		detail string
	}
	nothing := onDisk(0, 0, 0, 0)
	stories(t, map[string]variant{
		"bytes": {
			nodefs, onDisk(20, 90, 90, 90), onDisk(29, 90, 90, 90), 100, nil, "return 49 of the 50 that are needed: look at images, hostPath",
		},
		"bytes that suffice": {nodefs, onDisk(20, 0, 0, 0), onDisk(30, 0, 0, 0), 100, []string{"b", "a"}, ""},
		"of layers": {
			pressure.ContainerFSInodesFree, onDisk(90, 90, 90, 20), onDisk(90, 90, 90, 29), 100, nil, "return 49 inodes",
		},
		"tasks": {
			tasks, nothing, nothing, 100, nil, "all 2 candidates together could return 49 tasks of the 50 tasks that are needed: look at processes of the host",
		},
		"tasks near exhaustion": {tasks, nothing, nothing, 102, []string{"b", "a"}, ""},
		"bytes near exhaustion": {nodefs, onDisk(50, 0, 0, 0), nothing, 102, nil, "return 50 of the 52"},
	}, func(n *world, _ string, c variant) {
		n.short(c.signal)
		n.disk.freed = func(map[string]time.Duration) int64 { return 0 }
		n.holds("a", c.a)
		n.holds("b", c.b)
		n.pod("a").memory, n.pod("b").memory = 20*Mebi, 29*Mebi // and as many tasks
		n.stubborn = true
		n.policy.Thresholds[0].Quantity = pressure.Absolute(c.line)
		if n.evicts(10*time.Second, c.want...); c.want == nil {
			n.says(decide.HoldInsufficientReclaim, c.detail)
		}
	})
}

// A pod whose owner has reached its limit stays in the order, and no request is sent for it.
func TestOwnersLimitAndPodBackOffAreNamed(t *testing.T) {
	story(t, func(n *world) {
		n.line(100)
		n.runs("often 930/0", "refused 1/0", "free 940/0")
		n.host = -940 * Mebi
		n.hadItsTurn("rs-often")
		had := n.option
		n.option = func(o *agent.Options) {
			had(o)
			o.Remembered.Cooldown.Waits = map[string]cooldown.Wait{
				"pod/shop/uid-refused": {Until: n.began.Add(10 * time.Second), Count: 1, Why: evict.BlockedByBudget},
			}
		}
		n.evicts(time.Millisecond, "free")
		d := n.acted()[0]
		if p := d.Ranking.Protected; len(p) != 1 || p[0].Protection != rank.ProtectedBackingOff || p[0].Detail != "the last answer was BlockedByBudget" {
			t.Errorf("protected: %+v", p)
		}
		same(t, "notes", []string{
			"no request is sent for 1 candidates that wait for others of their owners: shop/often: 1 of its owner's pods went in the last hour, limits.perOwnerPerHour is 1",
		}, d.Notes)
		if v := d.Victim(); v.Entry.Position != 1 || len(d.Ranking.Candidates) != 2 {
			t.Errorf("the victim is not the first of two: %+v", d)
		}
	})
}

// No pod behind one whose owner has reached its limit goes in its place, neither at once nor where the one before it is
// refused.
func TestFaultALimitNamesNoOtherPod(t *testing.T) {
	stories(t, map[string]bool{"at once": false, "behind a refusal": true}, func(n *world, _ string, refused bool) {
		n.line(100)
		n.runs("often 310/0", "behind 300/0")
		n.host = 340 * Mebi // 50 of 1000 are left
		var asked []string
		if refused {
			asked = []string{"first"}
			n.runs("first 320/0")
			n.host -= 320 * Mebi
			n.answers(outcomes{"first": evict.BlockedByBudget})
		}
		n.hadItsTurn("rs-often")
		n.evicts(5*time.Second, asked...)
		n.says(decide.HoldLimitReached, "no pod goes in place of shop/often: 1 of its owner's pods went in the last hour, limits.perOwnerPerHour is 1")
	})
}

// A pod that is over its request comes back at once and holds what the victim held: its end frees nothing for as long as
// an end must, and it stays, with all behind it. Near exhaustion it goes, or what helps more. A real node lost six pods in
// three seconds (`make bench-incidents ONLY=4`).
func TestFaultReplacementGoesAtOnce(t *testing.T) {
	stories(t, map[string]int64{"it stays for the time of a relief": 0, "what leaks goes near exhaustion": 20 * Mebi}, func(n *world, _ string, leaks int64) {
		n.untilExhaustion()
		n.Run("victim", 30, 10, ofOwner)
		n.runs("behind 12/2", "leak 400/900")
		n.host = 463 * Mebi // 95 are left
		time.AfterFunc(5500*time.Millisecond, func() {
			n.Run("replacement", 30, 10, ofOwner, func(p *corev1.Pod) { p.CreationTimestamp.Time = time.Now().Truncate(time.Second) })
		})
		n.leaks("leak", 6*time.Second, leaks, 6*time.Second)
		if leaks > 0 {
			n.evicts(20*time.Second, "victim", "leak")
			return
		}
		n.evicts(29*time.Second, "victim")
		n.says(decide.HoldLimitReached, "no pod goes in place of shop/replacement: it replaced a pod that was evicted less than 30s ago, and would be replaced as soon")
		n.goesOn(10*time.Second, "victim", "replacement")
	})
}

// A tenant within its guarantee stays although its neighbours are refused for the moment.
func TestGuaranteeOutlastsARefusal(t *testing.T) {
	story(t, func(n *world) {
		n.line(100)
		n.Run("kept", 300, 0, func(p *corev1.Pod) { p.Namespace = "tenant" })
		n.runs("refused 640/0")
		n.answers(outcomes{"": evict.BlockedByBudget})
		n.policy.Rules.Queues = []rank.Queue{{
			Name: "tenant", GuaranteedMemory: 400 * Mebi,
			Holds: func(namespace string, _ map[string]string) bool { return namespace == "tenant" },
		}}
		n.evicts(5*time.Second, "refused")
		n.says(decide.HoldBackingOff, "all 1 candidates were refused a short while ago")
	})
}

// cacheHolders puts six pods on the node. Each uses so many hundredths of a MiB and 300 MiB of active page cache,
// and requests nothing. The node wants 50 MiB, and so many more once it acts.
func (n *world) cacheHolders(hundredths, margin int64) {
	for i := range 6 {
		pod := n.Run(fmt.Sprintf("cached-%d", i), 0, 0)
		pod.memory, pod.cache = hundredths*Mebi/100, 300*Mebi
	}
	n.line(50)
	n.policy.Thresholds[0].MinReclaim = mebi(margin)
}

// A slow leak crosses the line by 2 MiB. Six pods over their requests hold page cache only, which MemAvailable
// counts as available: together they do not reach the line, and go neither before nor after the leaker within its
// request, which goes near exhaustion only.
func TestFaultSlowLeakTakesCacheHolders(t *testing.T) {
	story(t, func(n *world) {
		n.cacheHolders(10, 20)
		n.runs("leaker 900/950")
		n.host = 51*Mebi + 4*Mebi/10
		n.policy.WithinRequests = decide.WithinRequestsUntilExhaustion
		n.evicts(time.Minute)
		n.says(decide.HoldInsufficientReclaim, "; shop/leaker alone uses 900.0Mi and is protected: WithinRequests")
	})
}

// A leak is evicted and returns less than the written minimum reclaim. The line is reached by what is in flight,
// and then by what is available: no other pod goes for the rest, however long that takes.
func TestFaultReclaimMarginTakesPods(t *testing.T) {
	stories(t, map[string][]string{"once": {"leak"}, "and the line is missed again": {"leak", "cached-0"}}, func(n *world, _ string, want []string) {
		n.ends = 10 * time.Second
		n.cacheHolders(500, 500)
		n.runs("leak 100/0")
		n.host = 830 * Mebi // 40 of 50 are left
		if len(want) > 1 {
			n.takes(time.Minute, 91) // by 1 MiB
		}
		n.evicts(3*time.Minute, want...)
		n.says(decide.HoldRecovered, "the threshold is reached, and no pod is evicted for its minimum reclaim alone")
	})
}

// Page cache moves no pod ahead in the ranking for MemAvailable.
func TestFaultRankingCountsCacheThatIsAvailable(t *testing.T) {
	all := map[pressure.MemoryDefinition]string{pressure.Kernel: "leaker", pressure.WorkingSet: "cached"}
	stories(t, all, func(n *world, definition pressure.MemoryDefinition, want string) {
		n.stubborn = true
		n.Run("cached", 12, 8).cache = 600 * Mebi
		n.runs("leaker 300/100")
		n.host, n.countsCache = 649*Mebi, definition == pressure.WorkingSet
		if n.countsCache {
			n.host -= 600 * Mebi
		}
		n.line(50)
		n.policy.MemoryAvailable = definition
		n.evicts(time.Second, want)
		d := n.last()
		for _, e := range append(d.Ranking.Candidates, d.Ranking.Protected...) {
			if e.Pod.Name == "cached" && (e.Pod.Reclaim != 12*Mebi || e.Pod.WorkingSet != 612*Mebi) {
				n.t.Errorf("both figures of its memory: %d and %d", e.Pod.Reclaim, e.Pod.WorkingSet)
			}
		}
	})
}

// hostOnNode has three pods that use less than they requested. After five seconds a process of the host takes 50 of the
// 120 MiB that are left. Pods within their requests stay until half of the line, 100 MiB, is left.
func (n *world) hostOnNode() {
	n.untilExhaustion()
	n.host = 700 * Mebi
	n.runs("a 60/100", "b 60/100", "c 60/100")
	n.takes(5*time.Second, 50)
}

// kubeletHard says what the kubelet's threshold of memory is, beside one of a disk.
func (n *world) kubeletHard(line int64) {
	n.policy.KubeletHard = []pressure.Threshold{
		{Signal: pressure.NodeFSAvailable, Quantity: mebi(90), Hard: true},
		{Signal: pressure.KubeletMemoryAvailable, Quantity: mebi(90), Hard: true}, // no signal of the kubelet's
		{Signal: pressure.MemoryAvailable, Quantity: mebi(line), Hard: true},
	}
}

// A process of the host uses memory until the threshold is met, and keeps it. The pods stay within their requests: none
// of them is evicted, however long it takes. One is when less than half of the threshold is left, and not before, and its
// end is waited for; or when the kubelet's threshold is met, by evictd's measure or by the kubelet's own, which needs no
// conversion. If that threshold is not known, no pod is.
func TestFaultHostMemoryTakesPodsWithinRequests(t *testing.T) {
	none := []string(nil)
	one := []string{"a"}
	type variant struct {
		happens func(n *world)
		want    []string
		detail  string // of the hold, where no pod goes
	}
	leaks := func(n *world) { n.leaks("", time.Minute, 4*Mebi/10, 20*time.Second) }
	kubelet := func(line, gap int64) func(n *world) {
		return func(n *world) {
			leaks(n)
			n.kubeletHard(line)
			n.gap = gap * Mebi
		}
	}
	itself := func(line int64) func(n *world) {
		return func(n *world) {
			kubelet(line, 500)(n)
			n.hasKubelets, n.policy.Thresholds[0].Signal = true, pressure.KubeletMemoryAvailable
		}
	}
	stories(t, map[string]variant{
		"it keeps it": {
			func(*world) {}, none, "all 3 pods that could be evicted use no more than they requested: look at processes of the host, page cache and kernel memory; " +
				"one is evicted when less than 50.0Mi is left",
		},
		"half of the line: a leak": {func(n *world) { n.leaks("", time.Minute, 2*Mebi, 15*time.Second) }, one, ""},
		// It leaves less and is no fall: a reason all the same.
		"half of the line: a step": {func(n *world) { n.After(time.Minute, func() { n.host = 771 * Mebi }) }, one, ""},
		// The gap alone is no line.
		"the kubelet's line is not known": {func(n *world) { leaks(n); n.gap = 60 * Mebi }, none, ""},
		"it is met":                       {kubelet(65, 0), one, ""},
		"it is near":                      {kubelet(60, 0), none, ""},
		"it is far":                       {kubelet(20, 0), none, ""},
		"it is far, and the kubelet sees less available": {kubelet(20, 45), one, ""},
		"it is met, and the kubelet sees more available": {kubelet(65, -40), none, ""},
		"it is far by the kubelet's measure":             {itself(20), none, ""},
		"it is met by the kubelet's measure":             {itself(65), one, ""},
		"a pod that exceeds goes at once, and no other":  {func(n *world) { n.runs("exceeds 40/10"); n.host -= 40 * Mebi }, []string{"exceeds"}, ""},
		"a soft threshold, of which less than half is left": {func(n *world) {
			n.policy.Thresholds = nil
			n.threshold(pressure.MemoryAvailable, mebi(150), false, time.Second)
		}, none, "none of them is evicted for a soft threshold"},
	}, func(n *world, _ string, c variant) {
		n.hostOnNode()
		c.happens(n)
		n.evicts(4*time.Minute, c.want...)
		if len(c.want) == 0 {
			n.held(decide.HoldWithinRequests)
			n.says(decide.HoldWithinRequests, c.detail)
			return
		}
		d := n.acted()[0]
		if left := d.Pressure.Observed.Available; n.policy.KubeletHard == nil && c.want[0] == "a" && (left < 45*Mebi || left >= 50*Mebi) {
			n.t.Errorf("%d MiB were left", left/Mebi)
		}
		if r := d.Ranking; c.want[0] == "exceeds" && (len(r.Candidates) != 1 || r.Protected[0].Protection != rank.ProtectedWithinRequests) {
			n.t.Errorf("%d candidates: %+v", len(r.Candidates), r.Protected)
		}
	})
}

// Small pods over their requests beside a leak within its own: it alone goes near exhaustion where they hold less
// than it used up in the last seconds; it stays where they cover what it takes together.
func TestFaultPodsBesideALeakWithinItsRequest(t *testing.T) {
	type variant struct {
		setUp func(n *world)
		want  []string
	}
	stories(t, map[string]variant{
		"they would last for seconds": {func(n *world) {
			n.runs("leak 500/3000", "over 110/60", "holder 10/8", "near 110/130")
			n.host = 850 * Mebi
			n.leaks("leak", 0, 50*Mebi, 30*time.Second)
			n.line(500)
		}, []string{"leak"}},
		"one holds less than was used up": {func(n *world) {
			n.runs("leak 500/2500", "modest 121/100")
			n.host = 1550 * Mebi
			n.leaks("leak", 0, 20*Mebi, 50*time.Second)
			n.line(500)
		}, []string{"leak"}},
		"one holds more, and took nothing of it": {func(n *world) {
			n.runs("leak 500/2500", "idle 300/100")
			n.host = 1400 * Mebi
			n.leaks("leak", 0, 20*Mebi, 50*time.Second)
			n.line(500)
		}, []string{"leak"}},
		"they cover it together": {func(n *world) {
			n.runs("database 900/2000", "a 200/0", "b 200/0", "c 200/0", "d 200/0")
			n.host = 850 * Mebi
			n.leaks("database", 4*time.Second, 20*Mebi, 10*time.Second)
			n.line(300)
			n.kubeletHard(299)
		}, []string{"a"}},
	}, func(n *world, name string, c variant) {
		n.memory(3000)
		n.untilExhaustion()
		c.setUp(n)
		n.evicts(time.Minute, c.want...)
		if p := n.acted()[0].Ranking.Protected; name == "they would last for seconds" && (len(p) != 3 ||
			p[0].Protection != rank.ProtectedReclaimTooSmall) {
			n.t.Errorf("protected: %+v", p)
		}
	})
}

// Leaks follow each other: each goes as it crosses the line, and not only once it holds what those before it would
// use up within seconds.
func TestLeakGoesAtOnceAfterOthers(t *testing.T) {
	story(t, func(n *world) {
		n.memory(20000)
		n.untilExhaustion()
		n.line(18200)
		n.host, n.ends = 1000*Mebi, time.Second
		n.runs("calm 10/20")
		for i, name := range []string{"a", "b", "c", "d", "e"} {
			at := time.Duration(i) * 3500 * time.Millisecond
			time.AfterFunc(at, func() { n.runs(name + " 0/0") })
			n.leaks(name, at, 1000*Mebi, 1800*time.Millisecond)
			n.takes(at+2200*time.Millisecond, -900)
			n.leaks("", at+2200*time.Millisecond, 700*Mebi, 1300*time.Millisecond)
		}
		n.evicts(30*time.Second, "a", "b", "c", "d", "e")
		for _, d := range n.acted() {
			if left := d.Pressure.Observed.Available; left < 18000*Mebi {
				t.Errorf("%s went when %d MiB were left", d.Victim().Entry.Pod.Name, left/Mebi)
			}
		}
	})
}

// Something else than pods fills a disk. A pod within its request of ephemeral storage stays; one without a request
// exceeds it by what it holds.
func TestFaultDiskPodsWithinRequestsStay(t *testing.T) {
	stories(t, map[string][]string{"100": nil, "0": {"b"}}, func(n *world, request string, want []string) {
		n.short(pressure.NodeFSAvailable)
		n.policy.WithinRequests = decide.WithinRequestsUntilExhaustion
		n.holds("a", onDisk(100, 1, 0, 0))
		n.holds("b", onDisk(60, 1, 0, 0))
		for name, amount := range map[string]string{"a": "100", "b": request} {
			n.pod(name).api.Spec.Containers[0].Resources.Requests[corev1.ResourceEphemeralStorage] = resource.MustParse(amount)
		}
		n.evicts(time.Minute, want...)
		if want == nil {
			n.says(decide.HoldWithinRequests, "look at images")
		}
	})
}

// The pods of one owner leak, and one of them may go in an hour. Then no pod goes in place of the others, although the
// node is nearly exhausted: neither one within its request, nor one that exceeds its own by less.
func TestFaultOwnersLimitTakesPodsWithinTheirRequests(t *testing.T) {
	type variant struct {
		other, fast bool
		want        []string
	}
	stories(t, map[string]variant{
		"leaks alone":          {false, false, []string{"leak-a"}},
		"another that exceeds": {true, false, []string{"leak-a"}},
		"a fast fall":          {false, true, []string{"leak-a"}},
	}, func(n *world, _ string, c variant) {
		for _, leak := range []string{"leak-a", "leak-b", "leak-c"} {
			n.Run(leak, 150, 50, ofOwner)
		}
		n.runs("quiet 200/300")
		n.host = 280 * Mebi // 70 of 100 are left
		if c.other {
			n.runs("other 60/10")
			n.host -= 60 * Mebi
		}
		if c.fast {
			n.leaks("", 20*time.Second, 20*Mebi, 10*time.Second) // they would not last for 30 s
		} else {
			n.takes(20*time.Second, 200)
		}
		n.untilExhaustion()
		n.limit(0, 1)
		n.evicts(2*time.Minute, c.want...)
		n.says(decide.HoldLimitReached, "1 of its owner's pods went in the last hour, limits.perOwnerPerHour is 1")
	})
}

// Page cache makes the kubelet's figure short while MemAvailable stays above 600 MiB: the cache of a pod that reads
// files grows by 5 MiB a second. With a threshold on it, the pod that the kubelet would end with one second of grace
// is evicted with its own, before the kubelet's line; without it no pod is, and the line is passed.
func TestPageCacheBringsThePodToItsGraceBeforeTheKubelet(t *testing.T) {
	stories(t, map[string][]string{"with the signal": {"reader"}, "without it": nil}, func(n *world, _ string, want []string) {
		const kubeletsLine = 100
		n.hasKubelets, n.host, n.ends = true, 200*Mebi, 10*time.Second
		n.runs("reader 40/10", "leaky 60/10", "calm 50/100")
		n.pod("reader").cache = 300 * Mebi
		lowest := n.capacity
		for at := time.Second; at <= 2*time.Minute; at += time.Second {
			n.After(at, func() {
				if reader := n.pod("reader"); reader != nil && reader.cache < 600*Mebi {
					reader.cache += 5 * Mebi
				}
				lowest = min(lowest, n.kubelets())
			})
		}
		n.untilExhaustion()
		if want != nil {
			n.threshold(pressure.KubeletMemoryAvailable, mebi(2*kubeletsLine), true)
		}
		n.kubeletHard(kubeletsLine)
		n.watch(5 * time.Minute)
		if passed := lowest < kubeletsLine*Mebi; passed != (want == nil) {
			n.t.Errorf("the kubelet's figure fell to %d MiB", lowest/Mebi)
		}
		if n.evicted(want...); want == nil {
			return
		}
		same(n.t, "requests", []asked{{"reader", -1}}, n.graces())
		d := n.acted()[0]
		if use := d.Ranking.Candidates[0].Pod.Usage; d.Pressure.Threshold.Signal != pressure.KubeletMemoryAvailable ||
			use < 400*Mebi {
			n.t.Errorf("%v evicts a pod that uses %d MiB; want the working set", d.Pressure.Threshold, use/Mebi)
		}
		if e := n.ended[0]; e.Signal != pressure.KubeletMemoryAvailable || e.Freed == nil || *e.Freed < 400*Mebi {
			n.t.Errorf("it gave back %+v", e)
		}
	})
}

const softGrace = 30 * time.Second

// jittery is a policy with a soft threshold at a fifth of the memory too, which evicts after softGrace and a part of so
// much more.
func (n *world) jittery(longest time.Duration) {
	n.threshold(pressure.MemoryAvailable, pressure.Fraction(0.2), false, softGrace)
	n.policy.Limits.SoftJitter.Duration = longest
}

// jitter returns the part that the first soft eviction of an incident waits, which begins so long after the start.
func (n *world) jitter(began time.Duration) time.Duration {
	at := n.began.Add(began)
	why, _ := cooldown.New(n.policy.Limits, nil).Jitter(&decide.Situation{
		Incident: "memory.available-" + at.UTC().Format("20060102T150405.000Z"), Began: at, Pressure: pressure.Pressure{SampleTime: at},
	})
	return why.Until.Sub(at)
}

func TestSoftJitter(t *testing.T) {
	type variant struct {
		change func(n *world)
		want   func(jitter time.Duration) []time.Duration
		waits  bool
	}
	at := func(after time.Duration) func(time.Duration) []time.Duration {
		return func(time.Duration) []time.Duration { return []time.Duration{after} }
	}
	stories(t, map[string]variant{
		"switched off": {func(n *world) { n.policy.Limits.SoftJitter.Duration = 0 }, at(softGrace), false},
		"only the first of a pressure waits": {func(n *world) {
			n.pod("first").memory, n.pod("second").memory = 40*Mebi, 30*Mebi
			n.host += 240 * Mebi
		}, func(jitter time.Duration) []time.Duration {
			return []time.Duration{softGrace + jitter, softGrace + jitter}
		}, true},
		"a hard threshold that is met meanwhile evicts at once": {
			func(n *world) { n.takes(softGrace+2*time.Second, 60) }, at(softGrace + 2*time.Second), true,
		},
		"a hard threshold alone": {func(n *world) {
			n.host += 60 * Mebi
			n.policy.Thresholds = n.policy.Thresholds[:1]
		}, at(0), false},
	}, func(n *world, _ string, c variant) {
		n.stubborn = true
		n.runs("first 200/0", "second 100/0")
		n.host = 550 * Mebi // 150 are available
		n.jittery(10 * time.Second)
		jitter := n.jitter(0)
		if jitter < 3*time.Second || jitter > 9*time.Second {
			n.t.Fatalf("it waits %v: no part that this test needs", jitter)
		}
		c.change(n)
		n.watch(softGrace + 12*time.Second)
		n.asksAfter(c.want(jitter)...)
		holds := []decide.Hold{decide.HoldSoftJitter, decide.HoldReclaimInProgress}
		if !c.waits {
			holds = holds[1:]
		}
		n.held(holds...)
	})
}

// The first candidate is warned when the grace period begins, or as soon as it is known who that is, once for an
// incident.
func TestFirstCandidateIsWarned(t *testing.T) {
	type variant struct {
		change func(n *world)
		want   []string
	}
	stories(t, map[string]variant{
		"at once":           {func(*world) {}, []string{"first 30s"}},
		"without jitter":    {func(n *world) { n.policy.Limits.SoftJitter.Duration = 0 }, []string{"first 30s"}},
		"in a dry run":      {func(n *world) { n.policy.DryRun = true }, []string{"first 30s"}},
		"not while calm":    {func(n *world) { n.host -= 60 * Mebi }, nil},
		"not one that goes": {func(n *world) { n.host += 60 * Mebi }, nil}, // by the hard threshold, and suffices
		"not beside one that ends": {func(n *world) {
			n.stubborn = true
			n.terminate("uid-second")
		}, nil},
		"once there is a candidate": {func(n *world) {
			owners := n.pod("second").api.OwnerReferences
			n.changed("first", bare)
			n.changed("second", bare)
			n.After(10*time.Second, func() { n.changed("second", func(p *corev1.Pod) { p.OwnerReferences = owners }) })
		}, []string{"second 20s"}},
		"not by a list that is not complete": {func(n *world) { n.unsynced = true }, nil},
		"not by a signal that is not known": {func(n *world) {
			n.threshold(pressure.AllocatableMemoryAvailable, pressure.Fraction(0.1), true)
			n.sampled = n.blindAfter(pressure.AllocatableMemoryAvailable, 0)
		}, nil},
		"once the pods can be read": {func(n *world) {
			n.unread = errPlanted()
			n.After(20*time.Second, func() { n.unread = nil })
		}, []string{"first 10s"}},
		"again in the next": {func(n *world) {
			n.takes(5*time.Second, -200)
			n.takes(10*time.Second, 200)
		}, []string{"first 30s", "first 30s"}},
		"of a disk, once that is measured": {func(n *world) {
			n.pods = map[string]*Pod{}
			n.largeAndSmall(nodefs, always(50))
			n.policy.Thresholds[0].Hard, n.policy.Thresholds[0].Grace = false, softGrace
		}, []string{"large 30s"}},
	}, func(n *world, _ string, c variant) {
		n.runs("first 200/0", "second 100/0")
		n.host = 550 * Mebi // 150 are available
		n.jittery(10 * time.Second)
		c.change(n)
		var killed *File
		n.After(softGrace-2*time.Second, func() { killed = n.file.Copy() })
		n.watch(softGrace - time.Second)
		same(n.t, "warned", c.want, n.warned)
		if n.collects > 150 {
			n.t.Errorf("the pods were measured %d times in half a minute", n.collects)
		}
		n.file = killed
		n.live(softGrace - time.Second)
		if len(c.want) == 1 && !slices.Equal(n.warned, c.want) {
			n.t.Errorf("warned after a restart: %v", n.warned)
		}
	})
}

// One incident waits once: after a touch of the line nothing waits a second time. The next incident waits again, for
// another part.
func TestFaultATouchOfTheLineDrawsAnotherJitter(t *testing.T) {
	cases(t, func(n *world) {
		n.runs("first 200/0", "second 190/0")
		n.host = 460 * Mebi // 150 are available
		n.jittery(10 * time.Second)
	}, map[string]func(n *world){
		"one incident": func(n *world) {
			n.takes(softGrace+2*time.Second, -200)
			n.takes(softGrace+3*time.Second, 200)
			n.policy.Transition = time.Minute
			n.watch(2*softGrace + 12*time.Second)
			n.asksAfter(2*softGrace + 3*time.Second)
		},
		"two": func(n *world) {
			n.takes(time.Minute, 200)
			n.policy.Pacing.Max = 100 * time.Millisecond
			n.watch(2 * time.Minute)
			began, err := time.Parse("memory.available-20060102T150405.000Z", n.last().Incident)
			if err != nil {
				n.t.Fatal(err)
			}
			second := began.Sub(n.began)
			n.asksAfter(softGrace+n.jitter(0), second+softGrace+n.jitter(second))
		},
	})
}

// A heap that fills and is collected is below the soft line of the default configuration for seconds at a time, and
// never near the hard one. A soft grace period is what it says, whatever a forecast says.
func TestFaultASawtoothCutsNoGrace(t *testing.T) {
	story(t, func(n *world) {
		n.memory(6000)
		n.host = 5000 * Mebi
		heap := n.Run("heap", 300, 0)
		for at := range 1100 { // 220 MiB in 20 s, of which 20 MiB are below the soft line
			n.After(time.Duration(at)*100*time.Millisecond, func() { heap.memory = (200 + int64(at%200)*220/200) * Mebi })
		}
		n.untilExhaustion()
		n.line(300)
		n.threshold(pressure.MemoryAvailable, mebi(600), false, softGrace)
		n.kubeletHard(100)
		n.evicts(110 * time.Second)
	})
}
