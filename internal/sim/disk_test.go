package sim

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/evictd/evictd/internal/agent"
	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/kubeletconfig"
	"github.com/evictd/evictd/internal/measure"
	"github.com/evictd/evictd/pkg/evict"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/usage"
)

// Each signal ranks by what is used of its own filesystem, bytes or inodes.
func TestDiskVictimIsTheOneThatFilledThatFilesystem(t *testing.T) {
	stories(t, map[pressure.Signal]string{
		pressure.NodeFSAvailable:       "a",
		pressure.NodeFSInodesFree:      "b",
		pressure.ImageFSAvailable:      "c",
		pressure.ImageFSInodesFree:     "d",
		pressure.ContainerFSAvailable:  "c",
		pressure.ContainerFSInodesFree: "d",
	}, func(n *world, signal pressure.Signal, want string) {
		n.short(signal)
		n.disk.slow = time.Second
		n.holds("a", onDisk(400, 1, 1, 1))
		n.holds("b", onDisk(1, 400, 1, 1))
		n.holds("c", onDisk(1, 1, 400, 1))
		n.holds("d", onDisk(1, 1, 1, 400))
		n.stubborn = true
		n.evicts(20*time.Second, want)
		n.isHold(&n.decisions[0], decide.HoldUsageUnknown, "measuring the pods' disk use")
	})
}

// A measurement that failed or took too long evicts no pod and is repeated, one at a time, while the loop keeps ticking.
func TestDiskUseThatIsNotKnownEvictsNoPod(t *testing.T) {
	stories(t, map[string]func(n *world){
		"it fails":       func(n *world) { n.disk.err = errPlanted() },
		"it takes hours": func(n *world) { n.disk.slow = time.Hour },
	}, func(n *world, _ string, measuring func(n *world)) {
		n.short(nodefs)
		n.runs("a 1/0", "b 1/0")
		measuring(n)
		n.evicts(time.Minute)
		n.held(decide.HoldUsageUnknown)
		if got := n.disk.asked.Load(); got < 2 || got > 7 || n.samples < 60 || n.readFault[0] != measure.SourceDisk {
			n.t.Errorf("measured %d times and %d samples in a minute; read errors of %v", got, n.samples, n.readFault)
		}
	})
}

// partly is a use of nodefs of which the layers, or the volumes, are counted in part only.
func partly(use usage.DiskUse, part usage.Part, why string) usage.DiskUse {
	use.NodeFS[part].BytesKnown, use.Reason = false, why
	return use
}

// Whether a pod filled the disk is unknown when it was not measured completely. A pod is evicted only when what is
// known would free the 50 that are missing. What is known is reported in any case: one pod that cannot start must not
// silence the node.
func TestDiskUseOfSomePodsIsNotKnown(t *testing.T) {
	const denied = "counting the emptyDir: permission denied"
	counted := func(bytes int64) usage.DiskUse { return partly(onDisk(bytes, 1, 1, 1), usage.Layers, "") }
	refused := partly(inLayers(4), usage.Volumes, denied)
	type variant struct {
		old, other *usage.DiskUse // nil is missing
		want       []string
		detail     string
		layers     int64 // of the breakdown
	}
	stories(t, map[string]variant{
		"one is missing and the other suffices": {old: new(onDisk(50, 1, 1, 1)), want: []string{"old"}},
		"one is missing and the other does not suffice": {
			old: new(inLayers(49)), layers: 49,
			detail: "the candidates are known to hold less than the 50 that are needed, and of 1 pods not all could be measured: shop/new: no figures, as of a pod that has not started",
		},
		"all are missing":                  {detail: "of 2 pods not all could be measured: shop/new: no figures, as of a pod that has not started, shop/old: "},
		"what was counted of one suffices": {old: new(onDisk(5, 1, 1, 1)), other: new(counted(50)), want: []string{"new"}},
		"what was counted does not suffice": {
			old: new(inLayers(5)), other: new(partly(inLayers(44), usage.Volumes, "")), layers: 49,
			detail: "shop/new: the kubelet does not have all its figures yet",
		},
		"rights are missing": {old: new(inLayers(9)), other: &refused, layers: 13, detail: "shop/new: " + denied},
		"rights are missing, and a pod has not started": {
			old: &refused, layers: 4, detail: "shop/new: no figures, as of a pod that has not started, shop/old: " + denied,
		},
	}, func(n *world, _ string, c variant) {
		n.short(nodefs)
		n.runs("new 1/0", "old 1/0")
		for uid, use := range map[string]*usage.DiskUse{"uid-old": c.old, "uid-new": c.other} {
			if use != nil {
				n.disk.measured[uid] = *use
			}
		}
		if n.evicts(35*time.Second, c.want...); c.want != nil {
			return
		}
		known := decide.Breakdown{}
		if c.layers > 0 {
			known[decide.PartLayers] = c.layers
		}
		same(n.t, "breakdown", known, n.says(decide.HoldUsageUnknown, c.detail).Breakdown)
	})
}

// While a pressure lasts, its figures are renewed before they are too old, however long that takes, so that what is
// said about it does not change to and fro. A measurement from before the pressure, or before a victim's end, is made
// again at once, however young it is.
func TestDiskIsMeasuredAgain(t *testing.T) {
	inTime := func(slow time.Duration) func(n *world) {
		return func(n *world) {
			n.short(nodefs)
			n.disk.slow = slow
			n.holds("a", onDisk(9, 1, 1, 1))
			n.holds("b", onDisk(9, 1, 1, 1))
			n.watch(5 * time.Minute)
			n.held(decide.HoldUsageUnknown, decide.HoldInsufficientReclaim)
			if got := n.disk.asked.Load(); got < 20 || got > 40 {
				n.t.Errorf("measured %d times in 5 minutes", got)
			}
		}
	}
	cases(t, nil, map[string]func(n *world){
		"in time, where it takes a second":   inTime(time.Second),
		"in time, where it takes 6 s":        inTime(6 * time.Second),
		"in time, where it hardly ever ends": inTime(decide.DiskTimeout - time.Millisecond),
		"after a victim's end": func(n *world) {
			n.short(nodefs)
			n.holds("a", onDisk(30, 1, 1, 1))
			n.holds("b", onDisk(20, 1, 1, 1))
			n.holds("c", onDisk(60, 1, 1, 1))
			n.After(time.Second, func() { // while c ends, b grows
				n.disk.measured = map[string]usage.DiskUse{"uid-a": onDisk(30, 1, 1, 1), "uid-b": onDisk(90, 1, 1, 1)}
			})
			n.evicts(decide.CollectedWithin+4*time.Second, "c", "b")
		},
		"for a new pressure": func(n *world) {
			n.filesystem(nodefs, steps(map[time.Duration]int64{0: 110, 5 * time.Second: 90}))
			n.holds("a", inLayers(30))
			n.stubborn = true
			n.threshold(nodefs, pressure.Absolute(200), false)
			n.evicts(7*time.Second, "a")
		},
	})
}

// The host fills a disk. Each of the pods reaches the line when it is just missed; where all of them together do not
// last for 30 s, none goes. Where the disk is full before that, they hold at least what was used up in the seconds of
// the forecast, as a pod does that fills it.
func TestDiskThatTheHostFills(t *testing.T) {
	slowly, fast := sloped(0, 80*time.Second, 120*Mebi, 40*Mebi), sloped(0, 40*time.Second, 200*Mebi, 0)
	type variant struct {
		available func(time.Duration) int64
		held      int64
		want      []string
		says      string
	}
	stories(t, map[string]variant{
		"slowly":                     {slowly, 9, nil, "that are needed: look at images"},
		"slowly, the pods hold more": {slowly, 40, []string{"a"}, ""},
		"fast":                       {fast, 9, nil, "that are needed: look at images"},
		"fast, the pods hold more":   {fast, 40, []string{"a", "b"}, ""},
	}, func(n *world, _ string, c variant) {
		n.filesystem(nodefs, c.available)
		n.stubborn = true
		for _, name := range []string{"a", "b", "c"} {
			n.holds(name, inLayers(c.held*Mebi))
		}
		n.line(100)
		if n.evicts(40*time.Second, c.want...); c.want == nil {
			n.says(decide.HoldInsufficientReclaim, c.says)
		}
	})
}

// A pod fills a disk by 1 MiB/s and holds less than it would write within 30 s, beside one that has held as much for long. By
// how much it has grown it is known at the line, and goes there; where the host fills the disk, none does.
func TestFaultPodThatFillsADiskGoesAtTheLine(t *testing.T) {
	const begins, met = 130 * time.Second, 150 * time.Second
	stories(t, map[string]bool{"a pod": true, "a pod, and the figures of others are old": true, "the host": false}, func(n *world, name string, pod bool) {
		n.filesystem(nodefs, sloped(begins, 2*time.Minute, 120*Mebi, 0))
		n.stubborn = true
		n.runs("filler 1/0", "keeper 1/0")
		n.disk.measures = func() (map[string]usage.DiskUse, error) {
			filled := int64(20 * Mebi)
			if since := time.Since(n.began) - begins; pod {
				filled = Mebi * int64(max(0, since)/time.Second)
			}
			fills, keeps := inLayers(filled), inLayers(5*Mebi)
			if fills.Time = time.Now(); name != "a pod" {
				keeps.Time = n.began
			}
			return map[string]usage.DiskUse{"uid-filler": fills, "uid-keeper": keeps}, nil
		}
		n.line(100)
		if n.watch(met + 5*time.Second); !pod {
			n.evicted()
			return
		}
		n.evicted("filler")
		for _, at := range n.evictedAt() {
			if at < met-time.Second || at > met+time.Second {
				n.t.Errorf("evicted after %v, want about %v", at, met)
			}
		}
	})
}

// Pods that end all the time kept every measurement of a disk from being newer than the last of them.
func TestFaultChurnStarvesNoDiskMeasurement(t *testing.T) {
	story(t, func(n *world) {
		n.short(nodefs)
		n.ends, n.disk.slow = 500*time.Millisecond, 3*time.Second
		n.holds("large", onDisk(400, 1, 1, 1))
		n.holds("small", onDisk(1, 1, 1, 1))
		n.churn(1, time.Second, time.Minute)
		n.host = 998 * Mebi // memory is short too, and no pod can go for it
		n.threshold(pressure.MemoryAvailable, mebi(5000), false)
		n.evicts(30*time.Second, "large")
	})
}

// Both pods have been known for long. Greedy takes the node 12 past its threshold, and by the last figures holds
// nothing. Evicting modest alone would suffice, but it had no part in it. The kubelet measures once in a while, and
// tells it with its own times.
func TestFiguresFromBeforeThePressure(t *testing.T) {
	const met = 100 * time.Second
	const older = "the figures of 2 pods are from before the pressure: shop/greedy "
	type variant struct {
		every     time.Duration
		available func(time.Duration) int64
		modest    int64                           // what it holds
		greedy    func(since time.Duration) int64 // nil: 100 since the pressure
		stamp     func(taken time.Time) time.Time // nil: as it was, in whole seconds
		want      string                          // "" for none
		from, to  time.Duration                   // when it is evicted
		holds     []decide.Hold                   // the first
		detail    string                          // of the first that waits: half a minute after it began to measure
		note      string                          // of the decision that acts
	}
	left := steps(map[time.Duration]int64{0: 188, met: 88})
	falls := func(last int64) func(time.Duration) int64 {
		return sloped(met-40*time.Second, 50*time.Second, 150, last)
	}
	waits := []decide.Hold{decide.HoldUsageUnknown, decide.HoldReclaimInProgress}
	const late, later = met + decide.RenewedWithin, met + decide.RenewedWithin + time.Second
	stories(t, map[string]variant{
		"as old as the kubelet's may be": {
			every: 90 * time.Second, available: left, want: "greedy", from: 180 * time.Second, to: 180*time.Second + decide.DiskMaxAge,
			holds: waits, detail: older + "40s old, shop/modest 40s old: waiting 1m50s at most for newer ones",
		},
		"they would go by what the kubelet measured before": {
			every: time.Second, available: left, want: "greedy", from: met, to: met + time.Second, holds: waits,
		},
		"the kubelet never measures again": {
			every: time.Hour, available: left, want: "modest", from: late, to: later, holds: waits,
			detail: older + "2m10s old", note: older + "4m0s old",
		},
		"the figures carry no time": {
			every: time.Second, stamp: func(time.Time) time.Time { return time.Time{} }, available: left, want: "greedy", from: late, to: later,
			holds: waits, detail: older + "of unknown age", note: older + "of unknown age",
		},
		"the clock was set back": {
			every: time.Hour, stamp: func(taken time.Time) time.Time { return taken.Add(time.Hour) }, available: left, want: "modest", from: late, to: later,
			holds: waits, detail: older + "of unknown age", note: older + "of unknown age",
		},
		"the disk would be full before a victim could help, and what it holds lasts": {
			every: time.Hour, modest: 70, available: falls(40), want: "modest", from: met - 20*time.Second, to: met, holds: waits[:1], note: older,
		},
		"the disk would be full before a victim could help, and what it holds does not last": {
			every: time.Hour, available: falls(30), holds: []decide.Hold{decide.HoldUsageUnknown, decide.HoldInsufficientReclaim},
		},
		"and the kubelet measures what fills it": {
			every: 30 * time.Second, greedy: func(since time.Duration) int64 { return max(0, int64((since-60*time.Second)/time.Second*3)) },
			available: falls(30), want: "greedy", from: met - 10*time.Second, to: met, holds: waits[:1],
		},
	}, func(n *world, _ string, c variant) {
		n.filesystem(nodefs, c.available)
		n.runs("modest 1/0", "greedy 1/0")
		n.stubborn = true
		n.disk.measures = func() (map[string]usage.DiskUse, error) {
			since := time.Since(n.began).Truncate(c.every)
			use := map[string]int64{"modest": max(20, c.modest), "greedy": 0}
			if c.greedy != nil {
				use["greedy"] = c.greedy(since)
			} else if since >= met {
				use["greedy"] = 100
			}
			at := n.began.Add(since).Round(0).Truncate(time.Second) // as JSON has it
			if c.stamp != nil {
				at = c.stamp(at)
			}
			measured := map[string]usage.DiskUse{}
			for name, held := range use {
				one := inLayers(0)
				one.NodeFS[usage.Volumes].Bytes, one.ImageFS[usage.Volumes].Bytes, one.Time = held, held, at
				measured["uid-"+name] = one
			}
			return measured, nil
		}
		n.watch(met + decide.RenewedWithin + 30*time.Second)
		if holds := n.Holds(); len(holds) < len(c.holds) || !slices.Equal(holds[:len(c.holds)], c.holds) {
			n.t.Errorf("holds %v, want %v", holds, c.holds)
		}
		if c.want == "" {
			n.evicted()
			return
		}
		d := n.acted()[0]
		if after := d.Time.Sub(n.began); after < c.from || after > c.to || n.Victims()[0] != c.want {
			n.t.Errorf("%v was evicted after %v, want %s between %v and %v", n.Victims(), after, c.want, c.from, c.to)
		}
		if note := strings.Join(d.Notes, ""); c.note == "" && note != "" || !strings.Contains(note, c.note) {
			n.t.Errorf("note %q, want %q", note, c.note)
		}
		waiting := n.decided(func(d *decide.Decision) bool {
			return d.Hold == decide.HoldUsageUnknown && !strings.HasPrefix(d.Detail, "measuring")
		})
		if c.detail != "" && (len(waiting) == 0 || !strings.HasPrefix(waiting[0].Detail, c.detail)) {
			n.t.Errorf("waiting: %+v, want %q", waiting, c.detail)
		}
		for _, d := range waiting {
			if c.detail != "" && (d.Breakdown != nil || len(d.Ranking.Candidates) > 0) {
				n.t.Errorf("something rests on old figures: %+v", d)
			}
		}
	})
}

// A victim's space is waited for, up to a minute after its end: the kubelet removes its containers by then. That of a
// victim that could not suffice is not, nor that of pods that evictd did not evict, or the wait would not end.
func TestSpaceOfADiskVictimIsWaitedFor(t *testing.T) {
	const collected, again = decide.CollectedWithin, 30 * time.Second
	largeOf := func(available func(time.Duration) int64, after time.Duration) func(n *world) {
		return func(n *world) {
			n.largeAndSmall(nodefs, available)
			n.collectsAfter(after)
		}
	}
	// The pods beside large hold more together than large does, whose end returns less than nothing.
	insufficient := func(n *world) {
		n.largeAndSmall(nodefs, always(50))
		n.disk.freed = func(ended map[string]time.Duration) int64 { return -46 * int64(min(1, len(ended))) }
		n.disk.measured["uid-small"] = onDisk(80, 80, 80, 80)
		n.holds("third", onDisk(30, 30, 30, 30))
	}
	type variant struct {
		setUp    func(n *world)
		during   time.Duration
		want     []string
		from, to time.Duration // between the first eviction and the second
	}
	stories(t, map[string]variant{
		"it comes back in time": {largeOf(always(90), 55*time.Second), 3 * time.Minute, []string{"large"}, 0, 0},
		"it never does": {
			largeOf(always(90), time.Hour), 3 * time.Minute, []string{"large", "small"}, collected, collected + 10*time.Second,
		},
		"of an earlier pressure, which ended": {func(n *world) {
			n.largeAndSmall(nodefs, steps(map[time.Duration]int64{0: 90, again: 5}))
		}, time.Minute, []string{"large", "small"}, again - time.Second, again + 5*time.Second},
		"of one that could not suffice": {insufficient, time.Minute, []string{"large", "small"}, 0, 5 * time.Second},
		"of others that end one after the other": {func(n *world) {
			insufficient(n)
			for i := range 10 {
				name := fmt.Sprint("job-", i)
				n.holds(name, onDisk(0, 0, 0, 0))
				n.After(time.Second, func() { // large is in flight
					n.ends = time.Duration(2+2*i) * time.Second
					n.terminate("uid-" + name)
				})
			}
		}, 30 * time.Second, []string{"large", "small"}, 0, 5 * time.Second},
		"of one that filled it, at whose rate it would be full": {func(n *world) {
			last := int64(0)
			largeOf(func(since time.Duration) int64 {
				if n.pod("large") != nil {
					last = sloped(0, 25*time.Second, 200, 0)(since)
				}
				return last
			}, 5*time.Second)(n)
			n.ends = 200 * time.Millisecond
		}, time.Minute, []string{"large"}, 0, 0},
		"of one that the kubelet evicts too": {func(n *world) {
			largeOf(always(90), 55*time.Second)(n)
			n.stubborn = true
			n.After(13*time.Second, func() { n.evictByKubelet("large") })
		}, time.Minute, []string{"large"}, 0, 0},
	}, func(n *world, _ string, c variant) {
		c.setUp(n)
		n.evicts(c.during, c.want...)
		once := map[string]bool{}
		for _, v := range n.kept().InFlight.Victims {
			if once[v.UID] {
				n.t.Errorf("%s is awaited twice: %+v", v.Name, n.kept().InFlight.Victims)
			}
			once[v.UID] = true
		}
		if at := n.evictedAt(); len(at) > 1 && (at[1]-at[0] < c.from || at[1]-at[0] > c.to) {
			n.t.Errorf("evictions after %v, want the second one %v to %v later", at, c.from, c.to)
		}
	})
}

// A victim's space is waited for, whatever happens to the threshold meanwhile.
func TestFaultDiskVictimIsForgottenBeforeItsSpaceIsBack(t *testing.T) {
	stories(t, map[string]func(n *world){
		"the line is touched": func(n *world) {
			n.disk.available = steps(map[time.Duration]int64{0: 90, 20 * time.Second: 100, 20200 * time.Millisecond: 90})
		},
		"hard after soft": func(n *world) {
			n.disk.available = steps(map[time.Duration]int64{0: 90, 20 * time.Second: 70})
			n.policy.Thresholds[0].Quantity = pressure.Absolute(80)
			n.threshold(nodefs, pressure.Absolute(100), false, time.Second)
		},
		"an edit": func(n *world) { n.reloads(15*time.Second, func(*agent.Policy) {}) },
		"two readings fail": func(n *world) {
			n.disk.blind = func(since time.Duration) bool { return since > 20*time.Second && since < 23*time.Second }
		},
	}, func(n *world, _ string, happens func(n *world)) {
		n.largeAndSmall(nodefs, always(90))
		n.collectsAfter(55 * time.Second)
		happens(n)
		n.evicts(3*time.Minute, "large")
	})
}

// The kubelet's own victim is waited for too; what it evicted before the shortage began is not.
func TestFaultKubeletsDiskVictimIsNotWaitedFor(t *testing.T) {
	stories(t, map[string]bool{"during the shortage": true, "before it": false}, func(n *world, _ string, during bool) {
		n.largeAndSmall(nodefs, steps(map[time.Duration]int64{0: 200, 5 * time.Second: 90}))
		n.disk.freed = func(map[string]time.Duration) int64 {
			if time.Since(n.began) > 70*time.Second {
				return 90
			}
			return 0
		}
		if !during {
			n.evictByKubelet("large")
			n.evicts(20*time.Second, "small")
			return
		}
		n.answers(outcomes{"": evict.BlockedByBudget})
		n.After(20*time.Second, func() { // the figures have been read for the refused request
			n.answer = nil
			n.evictByKubelet("large")
		})
		n.watch(3 * time.Minute)
		if at := n.evictedAt(); len(at) > 0 {
			n.t.Errorf("evicted %v", n.Victims())
		}
	})
}

// The simulated victim of a dry run does not hold a real eviction, long after its grace period.
func TestFaultDryRunsDiskVictimHoldsUpTheFirstRealOne(t *testing.T) {
	story(t, func(n *world) {
		n.largeAndSmall(nodefs, always(90))
		n.collectsAfter(55 * time.Second)
		grace(0)(n.pod("large").api)
		const reload = 40 * time.Second
		n.policy.DryRun = true
		n.reloads(reload, func(p *agent.Policy) { p.DryRun = false })
		n.watch(reload + 5*time.Second)
		if d := n.acted(); d[len(d)-1].Victim().Result.Outcome != evict.Evicted {
			t.Errorf("the last decision %+v, want an eviction", n.last())
		}
	})
}

// A disk victim that has ended, and that only a finalizer keeps, is waited for like one that has been deleted, and no
// longer. Before, it was relied on for what it had held until its deadline.
func TestFaultDiskVictimKeptByAFinalizerIsReliedOn(t *testing.T) {
	story(t, func(n *world) {
		n.largeAndSmall(nodefs, always(90))
		n.collectsAfter(time.Hour) // its space comes back to the host
		n.stubborn = true
		large := n.pod("large")
		grace(3600)(large.api)
		large.api.Status.ContainerStatuses = []corev1.ContainerStatus{{
			Name: "c", ContainerID: "containerd://1", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
		}}
		// Soft: it is relied on to its deadline.
		n.policy.Thresholds[0].Hard, n.policy.Thresholds[0].Grace = false, time.Second
		n.After(15*time.Second, func() { // its containers have ended, and its cgroup was removed
			n.changed("large", func(p *corev1.Pod) {
				p.Status.ContainerStatuses[0].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}
			})
			large.noCgroup = true
		})
		n.evicts(15*time.Second+decide.CollectedWithin+5*time.Second, "large", "small")
	})
}

// unused are images of so many bytes that no pod uses, on nodefs or on a filesystem of their own.
func unused(bytes int64, onNodeFS bool) Images {
	return Images{unused: measure.UnusedImages{Bytes: bytes, OnNodeFS: onNodeFS}}
}

// beside puts images on a filesystem of large and small, of which evictd wants that many bytes.
func (n *world) beside(images Images, wants int64, reclaim kubeletconfig.Configuration) {
	n.images, n.policy.Kubelet = &images, reclaim
	n.policy.Thresholds[0].Quantity = pressure.Absolute(wants)
	n.policy.Pacing.Min = 100 * time.Millisecond // the wants are seconds
}

// Evictd wants 160 and the kubelet 150 (nodefs: 100), and collects images at 159.
func TestFaultImagesGoBeforePods(t *testing.T) {
	const (
		met = 10 * time.Second // below evictd's line
		low = 30 * time.Second // below the kubelet's
	)
	type variant struct {
		signal    pressure.Signal // 0: imagefs.available
		images    Images
		wants     int64                        // evictd; 0: as above
		available map[time.Duration]int64      // since met
		course    func(time.Duration) int64    // in its place
		reclaim   *kubeletconfig.Configuration // nil: as above
		split     bool                         // the kubelet says that layers and images are apart
		want      time.Duration                // when a pod is evicted; 0: none within ten minutes
		note      string                       // of the decision that evicts it
		held      string                       // of the last hold for images; "" for none
	}
	const hold100 = "images that no pod uses hold 100"
	short, low140 := map[time.Duration]int64{met: 155}, map[time.Duration]int64{met: 155, low: 140}
	most := unused(100, false)
	stories(t, map[string]variant{
		"the kubelet collects them after five minutes": {
			images: most, available: map[time.Duration]int64{met: 155, 5 * time.Minute: 400},
			held: hold100 + ", and 5 are missing: the kubelet removes them below 150, before it evicts pods",
		},
		"the kubelet removes them below its own line": {
			images: most, available: map[time.Duration]int64{met: 155, low: 140, low + 20*time.Second: 400}, held: hold100 + ", and 20 are missing",
		},
		"a pod fills it beside small images": {
			images: unused(30, false), available: map[time.Duration]int64{met: 90}, want: met,
		},
		"images cover all that is missing, and it is a lot": {
			images: unused(70, false), available: map[time.Duration]int64{met: 90, low: 400},
			held: "images that no pod uses hold 70, and 70 are missing: the kubelet removes them below 150: waiting 1m0s at most for a rise",
		},
		"a minute below the kubelet's line without a rise": {
			images: most, available: low140, want: low + decide.ImagesWait, held: hold100,
			note: hold100 + ", and 20 are missing: availability has been below 150, where the kubelet removes them, for 1m0s, the last 1m0s without a rise",
		},
		"it rises below the kubelet's line": {
			images: most, available: map[time.Duration]int64{met: 155, low: 140, low + 50*time.Second: 145},
			want: low + 50*time.Second + decide.ImagesWait, note: "for 1m50s, the last 1m0s without a rise", held: hold100,
		},
		"it rises and falls for ever": {
			images: most, course: func(since time.Duration) int64 {
				if since < low {
					return steps(map[time.Duration]int64{0: 200, met: 155})(since)
				}
				return 120 + int64(since/time.Second)%20
			},
			want: low + decide.ImagesBound*decide.ImagesWait, note: "for 5m0s, the last 0s without a rise", held: hold100,
		},
		"the disk would be full": { // a second until it is below the line
			images: unused(1000, false), course: sloped(low, 40*time.Second, 155, 1),
			want: low + time.Second + decide.ImagesLook, note: "the last 15s without a rise", held: "images that no pod uses hold 1000",
		},
		"it is full, and falls no further": {
			wants: 100, images: unused(500, false), course: always(0), want: decide.ImagesLook, note: "the last 15s without a rise", held: "images that no pod uses hold 500",
		},
		"nodefs, on one device with images": { // the higher of the kubelet's two lines counts
			signal: nodefs, images: unused(100, true), available: low140, want: low + decide.ImagesWait, note: "below 150", held: hold100,
		},
		"nodefs, images have a device of their own": {
			signal: nodefs, images: most, available: short, want: met,
		},
		"images are elsewhere than what is read as imagefs": {
			images: unused(100, true), available: short, split: true, want: met,
		},
		"the first count is waited for": {
			images: Images{unused: most.unused, slow: 3 * time.Second}, available: map[time.Duration]int64{met: 155, 5 * time.Minute: 400}, held: hold100,
		},
		"inodes": {signal: pressure.ImageFSInodesFree, images: most, available: short, want: met},
		"what cannot be had holds nothing back": {
			images: Images{err: errPlanted()}, available: short, want: met,
			note: "what images hold that no pod uses is not known, and no pod waits for it: planted",
		},
		"nor what never comes": {
			images: Images{slow: time.Hour}, available: short, want: met + decide.ImagesTimeout,
			note: "what images hold that no pod uses is not known, and no pod waits for it: there was no answer within 5s",
		},
		"a kubelet without a line collects them": {
			images: most, available: short, reclaim: &kubeletconfig.Configuration{ImageCollection: pressure.Fraction(0.16)},
			want: met + decide.ImagesCollection, note: "availability has been below 159", held: hold100,
		},
		"a kubelet that removes none": {
			images: most, available: short, reclaim: &kubeletconfig.Configuration{}, want: met,
			note: hold100 + ", and 5 are missing: the kubelet is not configured to remove images",
		},
	}, func(n *world, _ string, c variant) {
		if c.signal == 0 {
			c.signal = pressure.ImageFSAvailable
		}
		if c.course == nil {
			c.available = maps.Clone(c.available)
			c.available[0] = 200
			c.course = steps(c.available)
		}
		n.largeAndSmall(c.signal, c.course)
		kubelets := reclaim()
		if kubelets.ImageCollection = pressure.Fraction(0.16); c.reclaim != nil {
			kubelets = *c.reclaim
		}
		n.beside(c.images, cmp.Or(c.wants, 160), kubelets)
		for uid, use := range n.disk.measured {
			use.SplitLayers = c.split
			n.disk.measured[uid] = use
		}
		n.watch(10 * time.Minute)
		evicted, note := time.Duration(0), ""
		if at := n.evictedAt(); len(at) > 0 {
			evicted, note = at[0], strings.Join(n.acted()[0].Notes, "; ")
		}
		if late := evicted - c.want; late < 0 || late > 1100*time.Millisecond {
			n.t.Errorf("a pod was evicted after %v, want %v; holds %v", evicted, c.want, n.Holds())
		}
		if c.note == "" && note != "" || !strings.Contains(note, c.note) {
			n.t.Errorf("notes %q, want %q", note, c.note)
		}
		held := ""
		for _, d := range n.decided(func(d *decide.Decision) bool { return d.Hold == decide.HoldImagesFirst }) {
			held = d.Detail
		}
		if !strings.HasPrefix(held, c.held) || c.held == "" && held != "" {
			n.t.Errorf("held %q, want %q", held, c.held)
		}
		if c.want == 0 && n.images.asked > 6 { // while the disk is short alone, and once a minute at most
			n.t.Errorf("the images were counted %d times in five minutes of pressure", n.images.asked)
		}
		time.Sleep(time.Hour) // the caller does not answer again
	})
}

// A disk whose use moves around the hard threshold is one incident: images that are not removed are waited for once.
func TestFaultImagesThatStayAreWaitedForAgain(t *testing.T) {
	stories(t, map[string]bool{"soft alone": false, "soft and hard": true}, func(n *world, _ string, hard bool) {
		n.largeAndSmall(pressure.ImageFSAvailable, func(since time.Duration) int64 {
			if int(since/(20*time.Second))%2 == 0 {
				return 125
			}
			return 110
		})
		n.beside(unused(100, false), 120, reclaim())
		if n.threshold(pressure.ImageFSAvailable, pressure.Absolute(160), false); !hard {
			n.policy.Thresholds = n.policy.Thresholds[1:]
		}
		n.watch(30 * time.Minute)
		n.acted()
	})
}
