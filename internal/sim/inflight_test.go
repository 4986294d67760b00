package sim

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/evictd/evictd/internal/agent"
	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/pkg/evict"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/usage"
)

// Unknown does not mean ended: a victim whose cgroup cannot be read, and a list of pods that is not complete, end
// no booking. A force-deleted pod whose processes still run holds what it holds; of one that has finished and has
// no cgroup nothing is left.
func TestUnknownIsNotGone(t *testing.T) {
	type variant struct {
		is    func(*world)
		there bool
	}
	stories(t, map[string]variant{
		"the cgroup cannot be looked for": {
			func(n *world) { delete(n.pods, "uid-victim"); n.unpresent = errPlanted() }, true,
		},
		"the pods are not known":    {func(n *world) { delete(n.pods, "uid-victim"); n.unsynced = true }, true},
		"it is not there":           {func(n *world) { delete(n.pods, "uid-victim") }, false},
		"it is not listed and runs": {func(n *world) { n.hides("victim", nil) }, true},
		"the kubelet has ended it":  {func(n *world) { n.evictByKubelet("victim") }, false},
	}, func(n *world, _ string, c variant) {
		n.runs("victim 100/0")
		c.is(n)
		victim := decide.Victim{UID: "uid-victim", Phase: decide.Terminating, Accepted: n.began, Deadline: n.began.Add(time.Hour)}
		n.watch(time.Millisecond, func(o *agent.Options) { o.Remembered.InFlight.Victims = []decide.Victim{victim} })
		if got := len(n.inFlight()) > 0; got != c.there {
			n.t.Errorf("in flight: %v, want %v", got, c.there)
		}
	})
}

// endless is a number of seconds that the API takes for a grace period, and that no time.Duration holds.
const endless = 10_000_000_000

// A pod of others that is stuck is relied on for one clock, from the moment the line is met, and not for longer: the time
// before does not matter. Under soft pressure one with an endless grace period was relied on for a year. The end of a
// mirror pod ends nothing: the static pod's memory stays where it is, and the kubelet makes the mirror again.
func TestFaultOldStuckPodIsReliedOnForOneClock(t *testing.T) {
	type variant struct {
		leaves func(n *world)
		from   time.Duration // when the line is met
		relied time.Duration // on the stuck pod
		alone  bool          // the other one is in flight, then
	}
	const clock, long = decide.HardPatience, 10 * time.Minute
	ends := func(n *world) { n.terminate("uid-stuck") }
	stories(t, map[string]variant{
		"terminating for long": {ends, long, clock, false},
		"finished": {func(n *world) {
			n.changed("stuck", func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed })
		}, long, clock, false},
		"terminating since a moment": {func(n *world) { n.After(long, func() { ends(n) }) }, long, clock, false},
		"an endless grace period, under soft pressure": {func(n *world) {
			grace(endless)(n.pod("stuck").api)
			ends(n)
			n.policy.Thresholds[0].Hard, n.policy.Thresholds[0].Grace = false, 30*time.Second
		}, 0, clock, false},
		"a pod that was deleted by force": {func(n *world) { n.hides("stuck", nil) }, long, clock, true},
		"a mirror pod": {func(n *world) {
			n.changed("stuck", mirrorOf("uid-stuck"))
			ends(n)
		}, 0, 0, true},
	}, func(n *world, _ string, c variant) {
		n.runs("stuck 500/0", "greedy 100/10")
		n.stubborn = true
		c.leaves(n)
		n.After(c.from, func() { n.pod("greedy").memory = 450 * Mebi })
		if n.start(); c.relied > 0 {
			n.goesOn(c.from + c.relied - time.Second)
			n.held(decide.HoldReclaimInProgress)
		}
		if n.goesOn(4*time.Second, "greedy"); c.alone {
			n.follows("greedy", "memory.available")
		}
	})
}

// A pod of others that ends each half minute, and is made again, held a node at 290 of 300 MiB for half an hour
// while the pod that is over its request stayed: that one goes once the clock is over. The clock is the
// incident's: a line that holds again for a moment each half minute, when the pod of others has ended and is made
// again, began it anew.
func TestFaultPodsThatEndOneAfterTheOtherHoldOneClock(t *testing.T) {
	stories(t, map[string]func(n *world) (late time.Duration){
		"at the line": func(n *world) time.Duration { n.ends = 31 * time.Second; return 5 * time.Second },
		"the line holds for a moment": func(n *world) time.Duration {
			n.ends, n.policy.Transition = 29*time.Second, 5*time.Minute
			return 30 * time.Second
		},
	}, func(n *world, _ string, sets func(n *world) time.Duration) {
		late := sets(n)
		n.runs("greedy 300/10")
		n.host = 400 * Mebi
		n.churn(210, 30*time.Second, 10*time.Minute)
		if n.evicts(30*time.Second+decide.HardPatience+late, "greedy"); len(n.ended) != 1 {
			n.t.Errorf("ended as evictd's: %+v, want greedy", n.ended)
		}
	})
}

// emptied makes the cgroup of a pod one that is there and uses nothing, once the node has run for so long.
func (n *world) emptied(name string, from time.Duration) {
	n.collected = func(read []usage.Pod) ([]usage.Pod, error) {
		for i := range read {
			if read[i].UID == "uid-"+name && time.Since(n.began) >= from {
				read[i] = usage.Pod{UID: read[i].UID, TasksKnown: true, Unused: true}
			}
		}
		return read, nil
	}
}

// A victim whose processes have ended and whose volume does not unmount was relied on for what it had held, to
// its deadline, while a neighbour took the node. A cgroup that uses nothing does not show what its pod uses either: the
// pod is no candidate.
func TestFaultEmptiedCgroupIsNotReliedOn(t *testing.T) {
	type variant struct {
		leave func(n *world)
		want  []string
	}
	stories(t, map[string]variant{
		"evictd's own":      {func(*world) {}, []string{"stuck", "greedy"}},
		"that others end":   {func(n *world) { n.terminate("uid-stuck") }, []string{"greedy"}},
		"that is forgotten": {func(n *world) { n.hides("stuck", nil) }, []string{"greedy"}},
		"evictd's own, whose cgroup has gone": {func(n *world) {
			n.After(5*time.Second, func() { n.pod("stuck").noCgroup = true })
		}, []string{"stuck", "greedy"}},
		"of a pod that has not started": {func(n *world) {
			n.changed("stuck", func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending })
			n.emptied("stuck", 0)
			n.changed("greedy", bare)
		}, nil},
	}, func(n *world, _ string, c variant) {
		n.stubborn = true
		n.runs("stuck 500/0", "greedy 450/10")
		n.emptied("stuck", 5*time.Second)
		c.leave(n)
		n.After(5*time.Second, func() { n.pod("stuck").memory, n.host = 0, 500*Mebi })
		if n.evicts(7*time.Second, c.want...); c.want == nil {
			n.says(decide.HoldNoCandidates)
		}
	})
}

// forced is a node that is short of a little memory; a large pod is not listed any more unless listed says so,
// and still runs.
func (n *world) forced(listed func() bool) {
	n.runs("forced 500/100", "next 450/100")
	n.hides("forced", listed)
}

// A pod that the API server has deleted while the node still runs it is in flight until it has ended, from the
// first decision on, which may be the first of a process.
func TestInvariant09ForgottenPodIsReliedOn(t *testing.T) {
	story(t, func(n *world) {
		n.forced(nil)
		n.After(20*time.Second, func() { delete(n.pods, "uid-forced") })
		n.evicts(40 * time.Second)
		n.held(decide.HoldReclaimInProgress)
		if way := n.decisions[0].InFlight; len(way) != 1 || way[0].Key() != "uid-forced" ||
			way[0].Expected.At(pressure.MemoryAvailable) != 500*Mebi {
			t.Errorf("in flight: %+v, want the forgotten pod by its UID and what it holds", way)
		}
	})
}

// A new pod may have its cgroup before the watch tells of it. It is waited for until the watch does, and then it is a
// pod like any other. A static pod's cgroup has a UID that the API server does not know; the list tells it all the same.
func TestPodThatIsListedIsNotForgotten(t *testing.T) {
	cases(t, func(n *world) {
		n.forced(func() bool { return time.Since(n.began) > 300*time.Millisecond })
		n.stubborn = true
	}, map[string]func(n *world){
		"a new pod": func(n *world) {
			n.evicts(5*time.Second, "forced")
			if d := n.last(); len(d.InFlight) != 1 || d.InFlight[0].Name == "" || d.InFlight[0].Signal == "" {
				n.t.Errorf("in flight: %+v, want it as a victim of evictd's", d.InFlight)
			}
			if took := n.evictedAt()[0]; took > 500*time.Millisecond {
				n.t.Errorf("it was evicted after %v, want as soon as it was listed", took)
			}
		},
		"a static pod": func(n *world) {
			n.hidden = nil
			mirror := n.pod("forced").api
			mirror.UID = "uid-of-the-mirror"
			mirrorOf("uid-forced")(mirror)
			n.evicts(time.Second, "next")
		},
	})
}

// What is in flight covers the shortage for 60 ms while another pod takes a gigabyte a second: the next decision
// came with the tick after that, a tenth of a second later.
func TestFaultNextDecisionIsLateBehindWhatIsInFlight(t *testing.T) {
	story(t, func(n *world) {
		n.host, n.ends, n.slow = 640*Mebi, time.Minute, time.Millisecond
		n.runs("first 60/0")
		n.Run("leak", 0, 0, high) // evicted after all others
		for i := range 600 {
			n.After(time.Duration(i)*time.Millisecond, func() { n.pod("leak").memory += Mebi })
		}
		n.evicts(600*time.Millisecond, "first", "leak")
		at := n.evictedAt()
		for i, due := range []time.Duration{200 * time.Millisecond, 260 * time.Millisecond} { // at the line, and 60 MiB later
			if late := at[i] - due; late < 0 || late > 20*time.Millisecond {
				t.Errorf("%s was evicted after %v, want after %v and 20ms later at most", n.Victims()[i], at[i], due)
			}
		}
	})
}

// patientNode is a node with a soft threshold at a fifth, a hard one at a tenth, and a cap of ten seconds for the
// hard one, which is below the one of overdue victims. It is under soft pressure; its first victim has so many
// seconds of grace and never ends by itself. It is under hard pressure after five seconds.
func (n *world) patientNode(seconds int64) {
	n.stubborn = true
	n.Run("patient", 300, 0, grace(seconds))
	n.runs("next 290/0")
	n.host = 260 * Mebi // 150 left
	n.takes(5*time.Second, 80)
	n.policy.HardGrace, n.policy.OverdueGrace = 10, 60
	n.threshold(pressure.MemoryAvailable, pressure.Fraction(0.2), false)
}

// Which victims are escalated is in the tables of internal/decide, and how often in those of internal/inflight. A victim
// that is escalated is so before any other pod goes, and once.
func TestEscalation(t *testing.T) {
	const overdue = decide.HardPatience + 20*time.Second
	first, again, next := asked{"patient", -1}, asked{"patient", 10}, asked{"next", 10}
	type variant struct {
		grace  int64
		during time.Duration
		setUp  func(n *world)
		want   []asked
	}
	none := func(*world) {}
	stories(t, map[string]variant{
		"while it is relied on: no pod": {
			endless, decide.HardPatience, none, []asked{first},
		},
		"past its deadline: the victim again": {
			20, 20*time.Second + decide.DeadlineMargin + 2*time.Second, none, []asked{first, again},
		},
		"once: past the new deadline the next one is evicted": {
			3600, decide.HardPatience + 10*time.Second + decide.DeadlineMargin + 3*time.Second, none,
			[]asked{first, again, next},
		},
		"it ends now: no other pod is evicted": {
			3600, 5 * time.Minute, func(n *world) { n.After(time.Minute, func() { n.stubborn = false }) },
			[]asked{first, again},
		},
		"soft pressure does not": {
			20, time.Minute, func(n *world) { n.host -= 80 * Mebi }, []asked{first, {"next", -1}},
		},
		"another client has shortened it already: the next one": {3600, overdue, func(n *world) {
			n.After(10*time.Second, func() { n.terminate("uid-patient", new(int64(10))) })
		}, []asked{first, next}},
		"no answer: three times, and the next one": {3600, overdue + 10*time.Second, func(n *world) {
			n.answer = func(r evict.Request) evict.Result {
				if r.Shorten {
					return lost(r)
				}
				return evict.Result{Outcome: taken(r)}
			}
		}, []asked{first, again, again, again, next}},
		// The limit is reached by the first one until its minute is over.
		"it counts against no limit": {
			20, 62 * time.Second, func(n *world) { n.limit(1, 0) }, []asked{first, again, next},
		},
		"it counts against no limit, and none holds it back": {3600, overdue, func(n *world) {
			n.limit(1, 0)
			n.runs("small 20/0")
			n.host -= 20 * Mebi
			n.takes(40*time.Second, 300) // not covered from here on: one more pod is evicted, and reaches the limit
		}, []asked{first, next, again}},
		// A dry run escalates its own simulated victims, and no pod that is really terminating.
		"a dry run": {3600, overdue, func(n *world) { n.policy.DryRun = true }, []asked{first, again}},
		"a dry run that begins later": {3600, overdue, func(n *world) {
			n.reloads(10*time.Second, func(p *agent.Policy) { p.DryRun = true })
		}, []asked{first, {"next", 10}}},
		// A pod that evictd did not evict keeps its grace period, and so does a victim from before a restart.
		"ended by the Eviction API, and evictd started again": {3600, overdue, func(n *world) {
			n.changed("patient", func(p *corev1.Pod) {
				p.Status.Conditions = append(p.Status.Conditions,
					corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "EvictionByEvictionAPI"})
			})
			n.terminate("uid-patient")
		}, []asked{next}},
	}, func(n *world, name string, c variant) {
		n.patientNode(c.grace)
		c.setUp(n)
		n.watch(c.during)
		if same(n.t, "requests", c.want, n.graces()); name == "a dry run" {
			n.really()
		}
	})
}

// A pod with a grace period of 10^9 seconds ignores SIGTERM and takes what becomes free. No other pod goes for
// that: it gets the grace period of overdue victims, and that is on record.
func TestFaultGraceOfManyYearsCostsTheNeighbours(t *testing.T) {
	story(t, func(n *world) {
		n.policy.OverdueGrace = 60
		n.stubborn = true
		n.Run("hog", 400, 0, grace(1_000_000_000))
		n.runs("a 60/50", "b 60/50", "c 60/50", "d 60/50", "e 60/50")
		n.host = 220 * Mebi // 80 of 100 are left
		n.watch(decide.HardPatience + 10*time.Second)
		want := []asked{{"hog", -1}, {"hog", 60}}
		same(t, "requests", want, n.graces())
		if b := n.follows("hog", "memory.available"); b.GraceSeconds != 60 || b.Escalated.IsZero() ||
			!b.Deadline.Equal(b.Escalated.Add(time.Minute+decide.DeadlineMargin)) {
			t.Errorf("the booking %+v", b)
		}
		escalated := n.decided(func(d *decide.Decision) bool { return d.Verb() == decide.Escalated })
		if len(escalated) != 1 {
			t.Fatalf("%d escalations on record, want one: %+v", len(escalated), n.decisions)
		}
		if victim := escalated[0].Victim(); victim == nil || !victim.Escalates || victim.Entry.Position != 0 ||
			victim.Entry.Pod.Usage != 400*Mebi {
			t.Errorf("the record %+v", escalated[0])
		}
		n.After(50*time.Second, func() { delete(n.pods, "uid-hog") }) // it has had that long: the kubelet kills it
		n.on(10 * time.Minute)
		same(t, "requests", want, n.graces())
	})
}

// What the node got back by a victim's end. It ends after 20 s; its books are read once a second. What the other pods
// take and free meanwhile is in the tests of internal/inflight.
func TestWhatAVictimsEndGaveBack(t *testing.T) {
	const ending, atItsEnd = 16 * time.Second, 19500 * time.Millisecond
	type variant struct {
		after            time.Duration
		happens          func(n *world)
		expected, actual int64 // MiB; 0 is not known
	}
	stories(t, map[string]variant{
		"just what it held": {0, func(*world) {}, 300, 300},
		"it overran its deadline, and no other pod could go": {0, func(n *world) {
			n.ends, n.host = 46*time.Second, 620*Mebi
			delete(n.pods, "uid-other")
			delete(n.pods, "uid-small")
		}, 300, 300},
		"it has grown since it was accepted":   {10 * time.Second, func(n *world) { n.pod("first").memory += 50 * Mebi }, 350, 350},
		"another pod takes half of it at once": {atItsEnd, func(n *world) { n.pod("other").memory += 150 * Mebi }, 300, 300},
		"its page tables and sockets were in no pod's books": {
			ending, func(n *world) { n.pod("first").memory = 0; n.host -= 40 * Mebi }, 300, 340,
		},
		"half of it was another's too": {ending, func(n *world) { n.pod("first").memory = 0; n.host += 150 * Mebi }, 300, 150},
		"the host took memory while it was waited for, and not at its end": {
			10 * time.Second, func(n *world) { n.host += 100 * Mebi }, 300, 300,
		},
		"the pods cannot be read": {atItsEnd, func(n *world) { n.unread = errPlanted() }, 0, 0},
		"the node cannot be read": {atItsEnd, func(n *world) { n.unknown = errPlanted() }, 0, 0},
		"it was perhaps measured otherwise before": {0, func(n *world) {
			n.reloads(atItsEnd, func(p *agent.Policy) { p.MemoryAvailable = pressure.WorkingSet })
		}, 0, 0},
		"the configuration changed long before": {0, func(n *world) { n.reloads(10*time.Second, func(*agent.Policy) {}) }, 300, 300},
	}, func(n *world, _ string, c variant) {
		n.ends = 20 * time.Second
		n.runs("first 300/0", "other 200/0", "small 20/0")
		n.host = 400 * Mebi
		n.detail = func(uid string) usage.Detail {
			if uid != "uid-first" {
				n.t.Errorf("%s is read", uid)
			}
			return usage.Detail{"sockets": 40}
		}
		if c.after == 0 {
			c.happens(n)
		} else {
			n.After(c.after, func() { c.happens(n) })
		}
		n.watch(n.ends + 5*time.Second)
		if len(n.ended) != 1 {
			n.t.Fatalf("%d victims ended, want 1; evicted %v", len(n.ended), n.Victims())
		}
		e := n.ended[0]
		if e.Victim.UID != "uid-first" || e.Signal != pressure.MemoryAvailable || e.Expected == nil ||
			*e.Expected != 300*Mebi || e.Victim.Held["sockets"] != 40 {
			n.t.Errorf("ended: %+v", e)
		}
		if e.Took() < n.ends || e.Took() > n.ends+time.Second || e.Victim.Stuck(e.Victim.Ended) != (n.ends > 45*time.Second) {
			n.t.Errorf("took %v until %v, want before %v", e.Took(), e.Victim.Ended, e.Victim.Deadline)
		}
		var want, freed *int64
		if c.expected > 0 {
			want, freed = new(c.expected*Mebi), new(c.actual*Mebi)
		}
		same(n.t, "expected last", want, e.Last)
		same(n.t, "reclaimed", freed, e.Freed)
	})
}

// A node without pods in flight pays nothing, and one with them a reading a second.
func TestFollowingAVictimIsCheap(t *testing.T) {
	story(t, func(n *world) {
		n.stubborn = true
		n.runs("first 950/0")
		n.policy.Pacing.Max = n.policy.Pacing.Min
		n.evicts(time.Second, "first")
		n.host, n.collects, n.samples = -500*Mebi, 0, 0
		if n.on(10 * time.Second); n.collects < 9 || n.collects > 11 || n.samples < 900 {
			t.Errorf("read the pods %d times in 10 s and %d samples, want once a second", n.collects, n.samples)
		}
	})
}

// A victim that keeps growing is read at one size, although a tick reads the node and the pods several times: it
// takes a MiB from one reading to the next.
func TestAGrowingVictimIsReadAtOneSize(t *testing.T) {
	story(t, func(n *world) {
		n.memory(100_000)
		n.runs("first 300/0", "second 200/0")
		n.host = n.capacity - 800*Mebi
		n.sampled = func(*pressure.Sample) {
			if pod := n.pod("first"); pod != nil {
				pod.memory += Mebi
			}
		}
		n.watch(5 * time.Second)
		for _, e := range n.ended {
			if e.Freed == nil || *e.Freed != *e.Last {
				t.Errorf("%s: %+v", e.Victim.Name, e)
			}
		}
		if len(n.ended) == 0 {
			t.Error("no victim has ended")
		}
	})
}

// spike makes the node one on which something takes less memory than the first pod of the order will free. It has
// pods of any size, a victim that takes up to the minute of its grace period to end, an API server that takes up to
// three seconds to respond, a watch that may be behind, and memory use that changes a little all the time.
func (n *world) spike(r *rand.Rand) {
	n.memory(4000)
	n.ends = time.Duration(r.Int64N(int64(time.Minute)))
	n.slow = time.Duration(r.Int64N(int64(3 * time.Second)))
	n.behind = r.IntN(2) == 0
	largest := 100 + r.Int64N(900)
	n.Run("largest", largest, r.Int64N(50), grace(60))
	used := largest
	for i := range 1 + r.IntN(30) {
		memory := r.Int64N(min(largest-50, 100))
		n.Run(fmt.Sprint("pod-", i), memory, r.Int64N(50), grace(60))
		used += memory
	}
	// 400 must be available; 10 is more than the noise below.
	free, short := 500+r.Int64N(400), 10+r.Int64N(largest-20)
	n.host = (4000 - used - free) * Mebi
	n.takes(time.Duration(r.Int64N(int64(10*time.Second))), free-400+short)
}

// Guards invariant 4: a spike that one pod's end relieves takes that pod alone, however long it takes to end. There are
// ten random spikes with -short, a hundred without.
func TestInvariant04ASpikeWorthOneVictimTakesOne(t *testing.T) {
	seeds := []uint64{}
	for seed := range uint64(100) {
		seeds = append(seeds, seed)
	}
	if testing.Short() {
		seeds = seeds[:10]
	}
	each(t, seeds, func(n *world, seed uint64) {
		r := rand.New(rand.NewPCG(seed, 1))
		n.spike(r)
		for at := time.Duration(0); at < 3*time.Minute; { // what is used outside of pods moves by a few MiB, up and down
			by := r.Int64N(4 * Mebi)
			for _, change := range []int64{by, -by} {
				n.After(at, func() { n.host += change })
				at += time.Duration(1 + r.Int64N(int64(time.Second/2)))
			}
		}
		n.watch(3 * time.Minute)
		time.Sleep(2 * time.Minute) // until the last victim has ended
		n.evicted("largest")
	})
}
