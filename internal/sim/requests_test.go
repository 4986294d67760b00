package sim

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/evictd/evictd/internal/agent"
	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/nodepods"
	"github.com/evictd/evictd/pkg/evict"
	"github.com/evictd/evictd/pkg/pressure"
)

// greedyAndOther are two pods of a node that misses 50 MiB.
func (n *world) greedyAndOther() { n.runs("greedy 500/100", "other 450/100") }

// only answers the requests for a pod so, the first of which is number 1, and takes those for others.
func (n *world) only(name string, answer func(number int, r evict.Request) evict.Result) {
	number := 0
	n.answer = func(r evict.Request) evict.Result {
		if r.Name != name {
			return evict.Result{Outcome: taken(r)}
		}
		number++
		return answer(number, r)
	}
}

// stays is the answer to a request whose response is lost, and whose pod was seen to stay.
func stays(r evict.Request) evict.Result {
	result := lost(r)
	result.Stays = true
	return result
}

// A request without a response was carried out, and the watch does not tell: its pod is read before another goes.
func TestRequestInDoubtIsResolvedBeforeAnotherPodIsEvicted(t *testing.T) {
	type variant struct {
		setUp func(n *world)
		pod   string
		sent  []string
		want  evict.Outcome
	}
	stories(t, map[string]variant{
		"an eviction":                     {(*world).greedyAndOther, "greedy", []string{"evict greedy"}, evict.Evicted},
		"a delete that bypasses a budget": {(*world).nodeWithBudgets, "oneof3", []string{"evict alone", "evict oneof3", "delete oneof3"}, evict.Deleted},
	}, func(n *world, _ string, c variant) {
		c.setUp(n)
		n.ends, n.behind = time.Hour, true
		answer := n.answer
		n.answer = func(r evict.Request) evict.Result {
			if answer != nil && !r.Delete {
				return answer(r)
			}
			n.terminate(r.UID) // it was carried out
			return lost(r)
		}
		n.watch(13 * time.Second)
		n.sent(c.sent...)
		same(n.t, "looked into", []string{c.pod}, n.looks)
		if d := n.acted()[0]; d.Victim().Result.Outcome != c.want {
			n.t.Errorf("that it was evicted is not on record: %+v", d)
		}
	})
}

// The watch may report first that a request without a response was carried out: the pod is evictd's victim as
// if the response had arrived.
func TestRequestInDoubtThatTheWatchResolves(t *testing.T) {
	stories(t, map[string]bool{"under pressure": false, "when the pressure is over": true}, func(n *world, _ string, calm bool) {
		n.ends = 20 * time.Second
		n.greedyAndOther()
		n.unlooked = errPlanted()
		n.answer = func(r evict.Request) evict.Result {
			n.After(2500*time.Millisecond, func() {
				n.terminate(r.UID)
				if calm {
					n.host -= 300 * Mebi
				}
			})
			return lost(r)
		}
		n.limit(1, 0)
		n.evicts(10*time.Second, "greedy")
		var outcomes []evict.Outcome
		for _, d := range n.decisions {
			for i := range d.Attempts {
				outcomes = append(outcomes, d.Attempts[i].Result.Outcome)
			}
		}
		same(n.t, "on record", []evict.Outcome{evict.Unconfirmed, evict.Evicted}, outcomes)
		if way := n.follows("greedy", "memory.available"); way.GraceSeconds != 30 {
			n.t.Errorf("in flight: %+v", way)
		}
		n.counts(1)
		n.on(20 * time.Second)
		if len(n.ended) != 1 || n.ended[0].Victim.Name != "greedy" {
			n.t.Errorf("ended: %+v, want greedy", n.ended)
		}
	})
}

// The watch may report it between the tick's two readings of the list: the pod still counts as evictd's
// victim.
func TestRequestInDoubtThatTheWatchResolvesWithinATick(t *testing.T) {
	story(t, func(n *world) {
		n.behind, n.stubborn, n.unlooked = true, true, errPlanted()
		n.runs("greedy 950/100")
		n.answer = func(r evict.Request) evict.Result {
			n.terminate(r.UID)
			return lost(r)
		}
		n.watch(time.Millisecond)
		time.Sleep(2 * time.Second)           // the API server's back-off
		n.hidden = func(*nodepods.Pod) bool { // it shows once the list was read
			n.pod("greedy").api = n.pod("greedy").leaving
			return false
		}
		n.on(time.Second)
		n.follows("greedy", "memory.available")
	})
}

// A request may be carried out after the pod was read and was still running: no other pod is evicted until the
// API server has given the request up, whatever the ranking says by then.
func TestRequestInDoubtThatIsCarriedOutLate(t *testing.T) {
	grows := func(n *world) { n.pod("other").memory += 20 * Mebi }
	cases(t, func(n *world) {
		n.ends = 20 * time.Second
		n.runs("greedy 460/100", "other 450/100")
		n.host = 30 * Mebi
		n.only("greedy", func(number int, r evict.Request) evict.Result {
			if number > 1 {
				return evict.Result{Outcome: evict.Evicted}
			}
			n.After(3*time.Second, func() { n.terminate(r.UID) })
			return lost(r)
		})
	}, map[string]func(n *world){
		"another comes first": func(n *world) {
			n.After(500*time.Millisecond, func() { grows(n) })
			n.spares("other", 10*time.Second)
		},
		"the pod is protected": func(n *world) {
			n.After(500*time.Millisecond, func() { n.changed("greedy", bare) })
			n.spares("other", 10*time.Second)
		},
		"a pause": func(n *world) {
			n.After(500*time.Millisecond, func() {
				grows(n)
				n.host -= 300 * Mebi
				n.takes(time.Second, 300)
			})
			n.spares("other", 10*time.Second)
		},
		// Each request that is sent again may be carried out for as long as the first: the others are kept from the
		// last one on. A load balancer fails over for 32 s, and the API server carries the last request out 15 s later.
		"each request is lost": func(n *world) {
			n.only("greedy", func(_ int, r evict.Request) evict.Result { return stays(r) })
			n.After(51*time.Second, func() { n.terminate("uid-greedy") })
			n.spares("other", time.Minute)
		},
		// A pod whose requests are all lost does not stop evictions: it is retried for evict.RequestTimeout, and once
		// the last request cannot be carried out any more, the ranking decides.
		"none is carried out": func(n *world) {
			n.only("greedy", func(_ int, r evict.Request) evict.Result { return lost(r) })
			n.After(500*time.Millisecond, func() { grows(n) })
			n.spares("other", evict.RequestTimeout-time.Second)
			if n.on(evict.RequestTimeout + 11*time.Second); !slices.Contains(n.Victims(), "other") {
				n.t.Errorf("evicted %v, want the other", n.Victims())
			}
		},
	})
}

// The API server charges the budget, then deletes the pod. The connection is lost in between, and
// the budget refuses the second request because of the first, which lands ten seconds later: the
// doubt holds until then.
func TestFaultARefusedRetryEndsNoDoubt(t *testing.T) {
	each(t, []evict.Outcome{evict.BlockedByBudget, evict.Denied, evict.Throttled}, func(n *world, refusal evict.Outcome) {
		n.ends = 20 * time.Second
		n.greedyAndOther()
		n.only("greedy", func(number int, r evict.Request) evict.Result {
			if number > 1 {
				return evict.Result{Outcome: refusal}
			}
			n.After(10*time.Second, func() { n.terminate(r.UID) })
			return stays(r)
		})
		n.spares("other", 40*time.Second)
	})
}

// What ends a plan while the answer to its first request is awaited: the second is not sent, and the record
// says why. Guards invariant 4: what begins to leave meanwhile is relied on too.
func TestPlanEnds(t *testing.T) {
	const unread = "could not be read"
	guarded := []string{"guarded"}
	type variant struct {
		happens func(n *world)
		want    []string
		says    string
	}
	stories(t, map[string]variant{
		"the node recovers": {
			func(n *world) { n.After(time.Second, func() { n.capacity *= 2 }) }, guarded, "recovered meanwhile",
		},
		"the configuration changes": {func(n *world) {
			n.reloads(time.Second, func(p *agent.Policy) { p.DryRun = true })
		}, guarded, "the configuration changed"},
		"its pod terminates, and that suffices": {func(n *world) {
			n.After(time.Second, func() { n.terminate("uid-guarded") })
		}, guarded, "1 victims in flight should free"},
		"another does, a moment before the answer": {func(n *world) {
			n.After(4500*time.Millisecond, func() { n.terminate("uid-free") })
		}, guarded, "1 victims in flight should free"},
		"what terminates is too small": {func(n *world) {
			n.runs("small 20/0")
			n.After(time.Second, func() { n.terminate("uid-small") })
		}, []string{"guarded", "free", "guarded"}, ""}, // once its back-off is over
		"memory cannot be read": {func(n *world) { n.sampled = n.blindAfter(pressure.MemoryAvailable, 10) }, guarded, unread},
		"another signal of memory cannot be read": {func(n *world) {
			n.threshold(pressure.AllocatableMemoryAvailable, pressure.Absolute(1), true)
			n.sampled = n.blindAfter(pressure.AllocatableMemoryAvailable, 10)
		}, guarded, unread},
	}, func(n *world, _ string, c variant) {
		n.runs("guarded 500/100", "free 450/100")
		n.slow, n.ends = 5*time.Second, time.Minute
		n.answers(outcomes{"": evict.BlockedByBudget})
		c.happens(n)
		n.watch(20 * time.Second)
		if n.really(c.want...); !strings.Contains(n.decisions[0].Detail, c.says) {
			n.t.Errorf("the record does not say why the plan ended: %+v", n.decisions)
		}
	})
}

// A server that is overloaded or silent puts no pod in back-off and is not hammered: while the outcome of the last request
// is unknown no other pod is evicted. One pod whose requests are never answered does not stop the others.
func TestServerThatDoesNotServe(t *testing.T) {
	type variant struct {
		answer evict.Result
		unread bool // the pod cannot be read again, until after a minute
		during time.Duration
		want   []string
	}
	unanswered := evict.Result{Outcome: evict.Unconfirmed, Stays: true}
	stories(t, map[string]variant{
		"overloaded": {
			evict.Result{Outcome: evict.Throttled, RetryAfter: 20 * time.Second}, false, 50 * time.Second, []string{"greedy", "greedy", "greedy"},
		},
		"silent":          {lost(evict.Request{}), true, 80 * time.Second, []string{"greedy", "greedy"}},
		"silent to a pod": {unanswered, false, 20 * time.Second, []string{"greedy", "greedy", "greedy", "other"}},
	}, func(n *world, _ string, c variant) {
		n.greedyAndOther()
		n.only("greedy", func(int, evict.Request) evict.Result { return c.answer })
		if c.unread {
			n.unlooked = errPlanted()
			n.After(time.Minute, func() { n.answer, n.unlooked = nil, nil })
		}
		if n.evicts(c.during, c.want...); c.unread && (len(n.looks) < 10 || len(n.looks) > 13) { // after 1, 3, 7, 13 s, then every 6 s
			n.t.Errorf("looked %d times in a minute, want about 11", len(n.looks))
		}
	})
}

// The answer to the eviction of a pod without a grace period is lost, and the pod has ended when it is read
// again: that was evictd's doing.
func TestFaultLostAnswerOfAPodWithoutGraceCounts(t *testing.T) {
	story(t, func(n *world) {
		n.ends = 20 * time.Second
		n.Run("hog", 500, 100, grace(0))
		n.runs("innocent 450/100")
		n.answer = func(r evict.Request) evict.Result {
			n.terminate(r.UID)
			return lost(r)
		}
		n.limit(1, 0)
		n.evicts(10*time.Second, "hog")
		n.follows("hog", "memory.available")
		n.counts(1)
	})
}

// A request whose pod could not be read for days is resolved by a read that finds the pod leaving: by then
// that is not evictd's doing, and its grace period stays what it is.
func TestFaultLateAnswerShortensNoOthersGrace(t *testing.T) {
	story(t, func(n *world) {
		n.Run("greedy", 500, 100, grace(3600))
		n.runs("other 450/100")
		n.stubborn, n.behind = true, true
		n.answer = func(r evict.Request) evict.Result {
			n.host -= 300 * Mebi // calm
			return lost(r)
		}
		n.policy.HardGrace = 20
		n.watch(time.Hour)
		n.terminate("uid-greedy") // another's doing; the watch does not tell yet
		n.host += 300 * Mebi
		n.After(2*time.Second, func() { n.pod("greedy").api = n.pod("greedy").leaving })
		n.answer = nil
		n.on(3 * time.Minute)
		if slices.Contains(n.Victims()[1:], "greedy") {
			t.Errorf("the pod that another has deleted was evicted: %v", n.Victims())
		}
		for _, b := range n.inFlight() {
			if b.Name == "greedy" && b.Signal != "" {
				t.Errorf("it is in flight as evictd's own victim: %+v", b)
			}
		}
	})
}

// A victim that terminated while its request was still pending was taken for one that evictd had not evicted:
// the eviction was not recorded and not counted against a limit. Its answer comes, or is lost, half a second
// after the watch shows it.
func TestFaultVictimSeenToLeaveBeforeItsAnswer(t *testing.T) {
	each(t, []bool{true, false}, func(n *world, isLost bool) {
		n.runs("greedy 950/100")
		n.ends = 20 * time.Second
		n.slow = 500 * time.Millisecond
		n.reached = func(step string) {
			if step == "before the request is sent" {
				n.After(0, func() { n.terminate("uid-greedy") })
			}
		}
		if isLost {
			n.answer = lost
		}
		n.evicts(5*time.Second, "greedy")
		if d := n.acted()[0]; d.Victim().Result.Outcome != evict.Evicted ||
			n.follows("greedy", "memory.available").GraceSeconds != 30 {
			n.t.Errorf("on record: %+v", d)
		}
	})
}

// goneNode misses 50 MiB. The API server has forgotten the hog, the watch does not tell, and the hog's cgroup
// holds 500 MiB for the time given.
func (n *world) goneNode(holds time.Duration) {
	n.runs("hog 500/100", "innocent 450/100")
	n.only("hog", func(_ int, r evict.Request) evict.Result {
		n.After(holds, func() { delete(n.pods, r.UID) })
		return evict.Result{Outcome: evict.Gone, Message: "pods \"hog\" not found"}
	})
}

// A 404 of the pod says that the API server has forgotten it, not that its memory is back: the attempt ends,
// and the next decision sees what its cgroup still holds. What never comes back is waited for 45 s, and the pod
// is not sent again while the watch still lists it.
func TestFaultGoneEndsTheAttempt(t *testing.T) {
	cases(t, func(n *world) { n.limit(1, 0) }, map[string]func(n *world){
		"its memory comes back": func(n *world) {
			n.goneNode(20 * time.Second)
			n.evicts(10*time.Second, "hog")
			way := n.follows("hog", "")
			if way.DryRun || way.Expected.At(pressure.MemoryAvailable) != 500*Mebi ||
				!way.Deadline.Equal(way.Accepted.Add(decide.GoneFor)) {
				n.t.Errorf("in flight: %+v, want the hog for 45 s", way)
			}
			n.counts(0)
			n.goesOn(30*time.Second, "hog") // whose memory was enough
		},
		"it never does": func(n *world) {
			n.goneNode(time.Hour)
			n.evicts(decide.GoneFor-time.Second, "hog")
			n.goesOn(6*time.Second, "hog", "innocent")
		},
		"the first request was lost, and was carried out": func(n *world) {
			n.goneNode(20 * time.Second)
			gone := n.answer
			n.answer = func(r evict.Request) evict.Result {
				if len(n.evictions) == 1 {
					return lost(r)
				}
				return gone(r)
			}
			n.evicts(10*time.Second, "hog", "hog")
			n.follows("hog", "memory.available")
		},
		"a dry run": func(n *world) {
			n.policy.DryRun = true
			n.goneNode(20 * time.Second)
			n.watch(10 * time.Second)
			n.follows("hog", "")
			n.counts(0)
		},
	})
}

// The watch may tell between the decision and the request that a pod was replaced. A request with the UID of
// the old one would be retried by the API server for ten seconds, and charge the new pod's budget.
func TestFaultPodThatIsNoLongerListedIsNotSent(t *testing.T) {
	story(t, func(n *world) {
		n.runs("guarded 330/10", "replaced 310/10", "next 290/10")
		n.slow, n.ends = time.Second, time.Hour
		n.answers(outcomes{"guarded": evict.BlockedByBudget})
		n.hides("replaced", func() bool { return len(n.evictions) == 0 })
		n.watch(3 * time.Second)
		n.evicted("guarded") // what the other's cgroup still holds suffices
		if way := n.last().InFlight; len(way) != 1 || way[0].Signal != "" {
			t.Errorf("in flight: %+v, want the pod that is listed no more", way)
		}
	})
}

// A pod that admission begins to move away counts as one that others end, for 75 s: no other is asked
// meanwhile. Then the next one has its turn; in a dry run what the first holds counts as reclaimed.
func TestFaultAMigrationThatHasBegunIsReliedOn(t *testing.T) {
	stories(t, map[bool][]string{false: {"first", "second"}, true: {"first"}}, func(n *world, dryRun bool, want []string) {
		n.runs("first 500/100", "second 450/100")
		n.answers(outcomes{"": evict.Evacuating})
		n.policy.DryRun = dryRun
		n.evicts(70*time.Second, "first")
		n.follows("first", "")
		n.goesOn(20*time.Second, want...)
	})
}

// slowRefusals is a node that is short of 30 MiB, and whose first candidate a webhook refuses after ten
// seconds.
func (n *world) slowRefusals() {
	n.runs("guarded 300/10", "next 290/10", "small 280/10")
	n.host, n.slow, n.ends = 60*Mebi, 10*time.Second, 25*time.Second
	n.answers(outcomes{"guarded": evict.Denied})
}

// While a plan is carried out, the cgroups are read now and then, not at each of a hundred ticks a second: for
// a look at the plan, and to stay warm.
func TestPlanReadsCgroupsNowAndThen(t *testing.T) {
	story(t, func(n *world) {
		n.slowRefusals()
		n.policy.Pacing.Max = n.policy.Pacing.Min
		n.watch(9 * time.Second)
		if most := int(9*time.Second/agent.LookEvery) + 2 + 3; n.collects > most || n.samples < 2*most {
			t.Errorf("the cgroups were read %d times in 9 s and %d samples, want %d at most", n.collects, n.samples, most)
		}
	})
}

// A soft request that hangs in a webhook is withdrawn once a hard threshold is met. It may still be carried out:
// the same pod is evicted again, with the hard grace period.
func TestFaultHangingSoftRequestIsWithdrawn(t *testing.T) {
	story(t, func(n *world) {
		n.slowRefusals()
		n.slow, n.answer = 30*time.Second, nil
		n.host -= 80 * Mebi // soft
		n.After(2*time.Second, func() {
			n.host += 80 * Mebi
			n.slow = 0 // the webhook is itself again
		})
		n.softAndHard()
		n.watch(5 * time.Second)
		same(t, "requests", []asked{{"guarded", 3}}, n.graces())
		first := n.decisions[0]
		if last := first.Attempts[len(first.Attempts)-1]; last.Result.Outcome != evict.Unconfirmed ||
			!strings.Contains(last.Result.Message, "was withdrawn") {
			t.Errorf("the record of the soft plan: %+v", last)
		}
		if took := n.last().Time.Sub(n.began); took > 2500*time.Millisecond {
			t.Errorf("the hard decision was made after %v, want at once", took)
		}
	})
}

// webhookHangs is a node under soft disk pressure, which is under hard memory pressure after two seconds. Large holds the
// most of both, and a webhook hangs for its eviction.
func (n *world) webhookHangs() {
	n.runs("large 300/10", "next 290/10", "small 100/10")
	n.ends = 20 * time.Second
	n.After(2*time.Second, func() { n.host = 230 * Mebi })
	n.filesystem(pressure.NodeFSAvailable, steps(map[time.Duration]int64{0: 50}))
	for name, used := range map[string]int64{"large": 400, "next": 10, "small": 200} {
		n.disk.measured["uid-"+name] = onDisk(used, 1, 1, 1)
	}
	n.policy.HardGrace, n.policy.Thresholds = 3, HardPolicy().Thresholds
	n.threshold(pressure.NodeFSAvailable, pressure.Absolute(100), false)
	n.hangs = "large"
	n.only("large", func(_ int, r evict.Request) evict.Result { return stays(r) })
}

// evictsAtOnce fails the test unless the first pod that was evicted since a time is that one, soon after.
func (n *world) evictsAtOnce(since time.Duration, want string, within time.Duration) {
	n.t.Helper()
	for _, d := range n.decided(func(d *decide.Decision) bool { return d.Victim() != nil }) {
		if v := d.Victim(); v.Result.Sent.Sub(n.began) >= since {
			if after := v.Result.Sent.Sub(n.began); v.Entry.Pod.Name != want || after-since > within {
				n.t.Errorf("the victim is %q after %v, want %s at once; holds: %v", v.Entry.Pod.Name, after, want, n.Holds())
			}
			return
		}
	}
	n.t.Errorf("no victim, want %s; holds: %v", want, n.Holds())
}

// A soft request for a disk hangs in a webhook, and is withdrawn because the hard threshold of memory is met.
// Its outcome is unknown: that holds decisions about the disk, and none about memory.
func TestFaultDoubtAboutADiskHoldsUpNoMemoryEviction(t *testing.T) {
	const met, again = 1900 * time.Millisecond, 20300 * time.Millisecond
	unfit := func(n *world, names ...string) {
		for _, name := range names {
			n.After(met, func() { n.changed(name, bare) })
		}
	}
	type variant struct {
		setUp  func(*world)
		from   time.Duration
		want   string
		within time.Duration
	}
	const soon = 2 * time.Second
	stories(t, map[string]variant{
		"its pod uses the most memory, too": {func(*world) {}, 0, "next", 2 * soon},
		"its pod uses less memory":          {func(n *world) { n.pod("next").memory = 310 * Mebi }, 0, "next", 2 * soon},
		"its pod is no candidate any more":  {func(n *world) { unfit(n, "large") }, 0, "next", 2 * soon},
		"it cannot be read again":           {func(n *world) { n.unlooked = errPlanted() }, 0, "next", 2 * soon},
		// The decisions about the disk wait for the request in doubt, again and again. A memory shortage that comes later
		// does not wait with them.
		"memory is short later": {func(n *world) {
			unfit(n, "large")
			n.ends = time.Second // the first victim's
			n.takes(again, 290)
		}, again, "small", soon},
		// A soft plan begins while a hard pressure is held. Once that is no longer held, the plan is canceled.
		"the pods' use could not be read": {func(n *world) {
			n.host, n.unread = 230*Mebi, errPlanted()
			n.After(3*time.Second, func() { n.unread = nil })
		}, 3 * time.Second, "next", soon},
		"what was in flight sufficed": {func(n *world) {
			n.stubborn = true
			n.After(10*time.Second, func() { n.host = 550 * Mebi })
		}, 10 * time.Second, "small", soon},
		// It is evicted because of memory, too, and counts once.
		"there is no other candidate": {func(n *world) {
			unfit(n, "next", "small")
			n.ends = 0
			n.After(met, func() { n.hangs, n.answer = "", nil })
		}, 0, "large", 2 * soon},
	}, func(n *world, _ string, c variant) {
		n.webhookHangs()
		c.setUp(n)
		n.watch(30 * time.Second)
		if n.evictsAtOnce(c.from, c.want, c.within); c.want == "large" {
			n.counts(1)
			same(n.t, "in doubt", nil, n.inDoubt())
		}
	})
}

// The request in doubt was carried out, and the watch is behind: reading the pod shows it. What the pod frees
// counts, and no other pod is evicted.
func TestDoubtAboutADiskThatWasCarriedOutCountsForMemory(t *testing.T) {
	story(t, func(n *world) {
		n.webhookHangs()
		n.behind = true
		n.After(1990*time.Millisecond, func() { n.terminate("uid-large") })
		n.evicts(20 * time.Second)
		if d := n.acted()[0]; d.Pressure.Threshold.Signal != pressure.NodeFSAvailable ||
			d.Victim().Entry.Pod.Name != "large" {
			t.Errorf("that large was evicted for the disk is not on record: %+v", d)
		}
	})
}
