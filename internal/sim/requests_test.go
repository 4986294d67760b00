package sim

import (
	"context"
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

// losesFirst loses the response of the first request, and takes all others. Meanwhile is called with it.
func (n *world) losesFirst(meanwhile func(r evict.Request)) {
	n.answer = func(r evict.Request) evict.Result {
		if len(n.evictions) > 1 {
			return evict.Result{Outcome: evict.Evicted}
		}
		meanwhile(r)
		return lost(r)
	}
}

func TestRequestInDoubtIsResolvedBeforeAnotherPodIsEvicted(t *testing.T) {
	story(t, func(n *world) {
		n.ends, n.behind = 20*time.Second, true // the watch does not tell either
		n.greedyAndOther()
		n.answer = func(r evict.Request) evict.Result {
			n.terminate(r.UID) // it was carried out
			return lost(r)
		}
		n.watch(15 * time.Second)
		n.evicted("greedy")
		same(t, "looked into", []string{"greedy"}, n.looks)
		if d := n.acted()[0]; d.Victim().Result.Outcome != evict.Evicted {
			t.Errorf("that it was evicted is not on record: %+v", d)
		}
	})
}

func TestRequestInDoubtIsOver(t *testing.T) {
	stories(t, map[string]func(n *world){
		"that was not carried out is sent again": func(n *world) {
			n.losesFirst(func(evict.Request) {})
			n.watch(15 * time.Second)
			n.evicted("greedy", "greedy")
		},
		"of a pod that has ended": func(n *world) {
			n.ends = 500 * time.Millisecond
			n.losesFirst(func(r evict.Request) {
				n.terminate(r.UID)
				n.host += 500 * Mebi // and the node needs one more
			})
			n.watch(15 * time.Second)
			n.evicted("greedy", "other")
		},
	}, func(n *world, _ string, tell func(n *world)) {
		n.greedyAndOther()
		tell(n)
	})
}

// The watch may report first that a request without a response was carried out: the pod is evictd's victim as
// if the response had arrived.
func TestRequestInDoubtThatTheWatchResolves(t *testing.T) {
	cases := map[string]bool{"under pressure": false, "when the pressure is over": true}
	stories(t, cases, func(n *world, _ string, calm bool) {
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
		n.watch(10 * time.Second)
		n.evicted("greedy")
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

// The API server gives a request up after a while. A later deletion of the pod is not evictd's, whether or not
// the pod was seen to stay.
func TestRequestInDoubtForAPodThatAnotherDeletesLater(t *testing.T) {
	each(t, []bool{true, false}, func(n *world, stayed bool) {
		n.ends = time.Minute
		n.greedyAndOther()
		n.answer = func(r evict.Request) evict.Result {
			n.host -= 300 * Mebi
			result := lost(r)
			result.Stays = stayed
			return result
		}
		n.After(evict.RequestTimeout+decide.LookTimeout+time.Second, func() { n.terminate("uid-greedy") })
		n.watch(50 * time.Second)
		if len(n.decisions) != 1 || len(n.looks) != 0 {
			n.t.Errorf("read %v, and it is on record: %+v", n.looks, n.decisions)
		}
		n.host += 300 * Mebi
		n.on(5 * time.Second)
		n.evicted("greedy")
		if way := n.last().InFlight; len(way) != 1 || way[0].Signal != "" || len(n.inFlight()) > 0 {
			n.t.Errorf("in flight: %+v, want one of another's doing", way)
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
	stories(t, map[string]func(n *world){
		"another comes first":  func(n *world) { n.pod("other").memory += 20 * Mebi },
		"the pod is protected": func(n *world) { n.changed("greedy", bare) },
		"a pause": func(n *world) {
			n.pod("other").memory += 20 * Mebi
			n.host -= 300 * Mebi
			n.takes(time.Second, 300)
		},
	}, func(n *world, _ string, meanwhile func(n *world)) {
		n.ends = 20 * time.Second
		n.runs("greedy 460/100", "other 450/100")
		n.host = 30 * Mebi
		n.losesFirst(func(r evict.Request) {
			n.After(3*time.Second, func() { n.terminate(r.UID) })
			n.After(500*time.Millisecond, func() { meanwhile(n) })
		})
		n.watch(10 * time.Second)
		if n.pod("other").leaving != nil {
			n.t.Errorf("evicted %v: two are in flight for one deficit", n.Victims())
		}
	})
}

// A pod whose requests are all lost does not stop evictions: it is retried for evict.RequestTimeout, and once
// the last request cannot be carried out any more, the ranking decides.
func TestRequestInDoubtHoldsTheOthersForABoundedTime(t *testing.T) {
	stories(t, map[time.Duration]bool{evict.RequestTimeout - time.Second: false, 2*evict.RequestTimeout + 10*time.Second: true},
		func(n *world, during time.Duration, want bool) {
			n.runs("odd 460/100", "other 450/100")
			n.host = 30 * Mebi
			n.After(500*time.Millisecond, func() { n.pod("other").memory += 20 * Mebi })
			n.answer = func(r evict.Request) evict.Result {
				if r.Name == "odd" {
					return lost(r)
				}
				return evict.Result{Outcome: evict.Evicted}
			}
			n.watch(during)
			if got := slices.Contains(n.Victims(), "other"); got != want {
				n.t.Errorf("evicted %v within %v", n.Victims(), during)
			}
		})
}

// While the outcome of the last request is unknown, no other pod is evicted, and an API server that does not
// respond is not hammered.
func TestNoOtherPodWhileTheLastRequestIsInDoubt(t *testing.T) {
	story(t, func(n *world) {
		n.greedyAndOther()
		n.answer, n.unlooked = lost, errPlanted()
		n.watch(time.Minute)
		n.evicted("greedy")
		if got := len(n.looks); got < 10 || got > 12 { // after 1, 3, 7, 13 s, then every 6 s
			t.Errorf("looked %d times in a minute, want about 11", got)
		}
		if d := n.last(); d.Verb != decide.Held || d.Hold != decide.HoldRequestInDoubt &&
			d.Hold != decide.HoldBackingOff {
			t.Errorf("the record does not say that it is not known: %+v", d)
		}
	})
}

func TestDryRunInDoubtIsNotResolved(t *testing.T) {
	story(t, func(n *world) {
		n.runs("greedy 950/100")
		n.answer, n.policy.DryRun = lost, true
		n.watch(10 * time.Second)
		if len(n.looks) != 0 || len(n.evictions) < 2 {
			t.Errorf("%d looks and %d requests, want none and some", len(n.looks), len(n.evictions))
		}
	})
}

// What ends a plan while the answer to its first request is awaited: the second is not sent, and the record
// says why.
func TestPlanEnds(t *testing.T) {
	type variant struct {
		happens func(n *world)
		says    string
	}
	stories(t, map[string]variant{
		"the node recovers": {
			func(n *world) { n.After(time.Second, func() { n.capacity *= 2 }) }, "recovered meanwhile",
		},
		"the configuration changes": {func(n *world) {
			n.reloads(time.Second, func(p *agent.Policy) { p.DryRun = true })
		}, "the configuration changed"},
		"memory cannot be read": {
			func(n *world) { n.sampled = n.blindAfter(pressure.MemoryAvailable, 10) }, "could not be read",
		},
		"another signal of memory cannot be read": {func(n *world) {
			n.threshold(pressure.AllocatableMemoryAvailable, pressure.Absolute(1), true)
			n.sampled = n.blindAfter(pressure.AllocatableMemoryAvailable, 10)
		}, "could not be read"},
	}, func(n *world, _ string, c variant) {
		n.runs("guarded 500/100", "free 450/100")
		n.slow = 5 * time.Second
		n.answers(map[string]evict.Outcome{"": evict.BlockedByBudget})
		c.happens(n)
		n.watch(20 * time.Second)
		if wet := namesOf(n.Node, func(r evict.Request) bool { return !r.DryRun }); !slices.Equal(wet, []string{"guarded"}) {
			n.t.Errorf("evicted %v, want guarded alone", wet)
		}
		if !strings.Contains(n.decisions[0].Detail, c.says) {
			n.t.Errorf("the record does not say why the plan ended: %+v", n.decisions)
		}
	})
}

func TestOverloadedServerIsNotHammered(t *testing.T) {
	story(t, func(n *world) {
		n.greedyAndOther()
		n.answer = func(evict.Request) evict.Result {
			return evict.Result{Outcome: evict.Throttled, RetryAfter: 20 * time.Second}
		}
		n.watch(50 * time.Second)
		n.evicted("greedy", "greedy", "greedy")
		if d := n.last(); d.Hold != decide.HoldBackingOff && d.Verb != decide.Refused {
			t.Errorf("the record does not say that it waits: %+v", d)
		}
	})
}

// A webhook that cannot be reached keeps its pod for seconds, and nothing else.
func TestFaultAWebhookThatIsAwayForAMoment(t *testing.T) {
	story(t, func(n *world) {
		n.runs("greedy 950/100")
		n.answer = func(evict.Request) evict.Result {
			return evict.Result{Outcome: evict.Throttled, PodAlone: true, Message: "failed calling webhook"}
		}
		n.After(3*time.Second, func() { n.answer = nil })
		n.watch(10 * time.Second)
		if n.acted(); n.evictedAt()[0] > 8*time.Second {
			t.Errorf("evicted %v after the webhook was back", n.evictedAt()[0]-3*time.Second)
		}
	})
}

// One pod whose requests are never answered, and the next.
func TestPodWithoutAnAnswerDoesNotStopTheOthers(t *testing.T) {
	story(t, func(n *world) {
		n.runs("odd 500/100", "other 450/100")
		n.answer = func(r evict.Request) evict.Result {
			if r.Name == "odd" {
				return evict.Result{Outcome: evict.Unconfirmed, Stays: true}
			}
			return evict.Result{Outcome: evict.Evicted}
		}
		n.watch(20 * time.Second)
		n.evicted("odd", "odd", "odd", "other")
	})
}

// A server that does not respond puts no pod in back-off.
func TestSilentServerBlamesNoPod(t *testing.T) {
	story(t, func(n *world) {
		n.greedyAndOther()
		n.unlooked = errPlanted()
		n.answer = func(evict.Request) evict.Result { return evict.Result{Outcome: evict.Unconfirmed, Stays: true} }
		n.After(time.Minute, func() { n.unlooked, n.answer = nil, nil })
		n.watch(80 * time.Second)
		n.evicted("greedy", "greedy")
	})
}

// The answer to the eviction of a pod without a grace period is lost, and the pod has ended when it is read
// again: that was evictd's doing.
func TestFaultLostAnswerOfAPodWithoutGraceCounts(t *testing.T) {
	story(t, func(n *world) {
		n.runs("hog 500/100", "innocent 450/100")
		n.answer = func(r evict.Request) evict.Result {
			n.After(20*time.Second, func() { delete(n.pods, r.UID) })
			return lost(r)
		}
		n.fate = func(evict.Request) (evict.Fate, error) { return evict.Ended, nil }
		n.hides("hog", func() bool { return len(n.evictions) == 0 })
		n.limit(1, 0)
		n.watch(10 * time.Second)
		n.evicted("hog")
		n.follows("hog", "memory.available")
		n.counts(1)
	})
}

// Each request that is sent again may be carried out for as long as the first: the others are kept from the
// last one on. A load balancer fails over for 32 s, and the API server carries the last request out 15 s later.
func TestFaultTheLastLostRequestIsRemembered(t *testing.T) {
	story(t, func(n *world) {
		n.ends = 20 * time.Second
		n.greedyAndOther()
		n.answer = func(r evict.Request) evict.Result {
			result := lost(r)
			if result.Stays = true; r.Name != "greedy" {
				result.Outcome = evict.Evicted
			}
			return result
		}
		n.After(51*time.Second, func() { n.terminate("uid-greedy") })
		n.watch(60 * time.Second)
		if slices.Contains(n.Victims(), "other") {
			t.Errorf("evicted %v: two are in flight for one deficit", n.Victims())
		}
	})
}

// The API server charges the budget, then deletes the pod. The connection is lost in between, and
// the budget refuses the second request because of the first, which lands ten seconds later: the
// doubt holds until then.
func TestFaultARefusedRetryEndsNoDoubt(t *testing.T) {
	all := []evict.Outcome{evict.BlockedByBudget, evict.Denied, evict.Throttled}
	each(t, all, func(n *world, refusal evict.Outcome) {
		n.ends = 20 * time.Second
		n.greedyAndOther()
		n.answer = func(r evict.Request) evict.Result {
			switch {
			case r.Name != "greedy":
				return evict.Result{Outcome: evict.Evicted}
			case len(n.evictions) > 1:
				return evict.Result{Outcome: refusal}
			}
			n.After(10*time.Second, func() { n.terminate(r.UID) })
			result := lost(r)
			result.Stays = true
			return result
		}
		n.watch(40 * time.Second)
		if slices.Contains(n.Victims(), "other") {
			n.t.Errorf("evicted %v: two are in flight for one deficit", n.Victims())
		}
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
	each(t, []evict.Outcome{evict.Unconfirmed, evict.Evicted}, func(n *world, outcome evict.Outcome) {
		n.runs("greedy 950/100")
		n.ends = 20 * time.Second
		n.intercepts = func(r evict.Request) func(context.Context) evict.Result {
			n.evictions, n.intercepts = append(n.evictions, r), nil
			n.terminate(r.UID)
			return func(ctx context.Context) evict.Result {
				sent := time.Now()
				time.Sleep(500 * time.Millisecond)
				return evict.Result{Outcome: outcome, NoResponse: outcome == evict.Unconfirmed, Pending: outcome == evict.Unconfirmed, Sent: sent}
			}
		}
		n.watch(5 * time.Second)
		n.evicted("greedy")
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
	n.answer = func(r evict.Request) evict.Result {
		if r.Name != "hog" {
			return evict.Result{Outcome: taken(r)}
		}
		n.After(holds, func() { delete(n.pods, r.UID) })
		return evict.Result{Outcome: evict.Gone, Message: "pods \"hog\" not found"}
	}
}

// A 404 of the pod says that the API server has forgotten it, not that its memory is back: the attempt ends,
// and the next decision sees what its cgroup still holds. What never comes back is waited for 45 s, and the pod
// is not sent again while the watch still lists it.
func TestFaultGoneEndsTheAttempt(t *testing.T) {
	stories(t, map[string]func(n *world){
		"its memory comes back": func(n *world) {
			n.goneNode(20 * time.Second)
			n.watch(10 * time.Second)
			n.evicted("hog")
			way := n.follows("hog", "")
			if way.DryRun || way.Expected.At(pressure.MemoryAvailable) != 500*Mebi ||
				!way.Deadline.Equal(way.Accepted.Add(decide.GoneFor)) {
				t.Errorf("in flight: %+v, want the hog for 45 s", way)
			}
			n.counts(0)
			n.on(30 * time.Second)
			n.evicted("hog") // whose memory was enough
		},
		"it never does": func(n *world) {
			n.goneNode(time.Hour)
			n.watch(decide.GoneFor - time.Second)
			n.evicted("hog")
			n.on(6 * time.Second)
			n.evicted("hog", "innocent")
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
			n.watch(10 * time.Second)
			n.evicted("hog", "hog")
			n.follows("hog", "memory.available")
		},
		"a dry run": func(n *world) {
			n.policy.DryRun = true
			n.goneNode(20 * time.Second)
			n.watch(10 * time.Second)
			n.follows("hog", "")
			n.counts(0)
		},
	}, func(n *world, _ string, tell func(n *world)) {
		n.limit(1, 0)
		tell(n)
	})
}

// The watch may tell between the decision and the request that a pod was replaced. A request with the UID of
// the old one would be retried by the API server for ten seconds, and charge the new pod's budget.
func TestFaultPodThatIsNoLongerListedIsNotSent(t *testing.T) {
	story(t, func(n *world) {
		n.runs("guarded 330/10", "replaced 310/10", "next 290/10")
		n.slow, n.ends = time.Second, time.Hour
		n.answers(map[string]evict.Outcome{"guarded": evict.BlockedByBudget})
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
	cases := map[bool][]string{false: {"first", "second"}, true: {"first"}}
	stories(t, cases, func(n *world, dryRun bool, want []string) {
		n.runs("first 500/100", "second 450/100")
		n.answers(map[string]evict.Outcome{"": evict.Evacuating})
		n.policy.DryRun = dryRun
		n.watch(70 * time.Second)
		n.evicted("first")
		n.follows("first", "")
		n.on(20 * time.Second)
		n.evicted(want...)
	})
}

// slowRefusals is a node that is short of 30 MiB, and whose first candidate a webhook refuses after ten
// seconds.
func (n *world) slowRefusals() {
	n.runs("guarded 300/10", "next 290/10", "small 280/10")
	n.host, n.slow, n.ends = 60*Mebi, 10*time.Second, 25*time.Second
	n.answers(map[string]evict.Outcome{"guarded": evict.Denied})
}

// Guards invariant 4: what begins to leave while a request is under way is relied on too.
func TestWalkEndsWhenEnoughBeginsToLeave(t *testing.T) {
	type variant struct {
		holds   int64
		leaves  time.Duration
		victims []string
	}
	stories(t, map[string]variant{
		"a pod that suffices":        {280, 2 * time.Second, []string{"guarded"}},
		"a moment before the answer": {280, 9*time.Second + 500*time.Millisecond, []string{"guarded"}},
		"a pod that is too small":    {20, 2 * time.Second, []string{"guarded", "next"}},
	}, func(n *world, _ string, c variant) {
		n.slowRefusals()
		n.host += (280 - c.holds) * Mebi
		n.pod("small").memory = c.holds * Mebi
		n.After(c.leaves, func() { n.terminate("uid-small") })
		n.watch(25 * time.Second)
		n.evicted(c.victims...)
		if said := strings.Contains(n.decisions[0].Detail, "in flight should free"); said != (len(c.victims) == 1) {
			n.t.Errorf("the record of the plan: %q", n.decisions[0].Detail)
		}
	})
}

// While a plan is carried out, the cgroups are read now and then, not at each of a hundred ticks a second: for
// a look at the plan, and to stay warm.
func TestWalkReadsCgroupsNowAndThen(t *testing.T) {
	story(t, func(n *world) {
		n.slowRefusals()
		n.policy.Pacing.Max = n.policy.Pacing.Min
		n.watch(9 * time.Second)
		if most := int(9*time.Second/agent.LookEvery) + 2 + 3; n.collects > most || n.samples < 2*most {
			t.Errorf("the cgroups were read %d times in 9 s and %d samples, want %d at most", n.collects, n.samples, most)
		}
	})
}

func TestHardPressureEndsASoftWalk(t *testing.T) {
	story(t, func(n *world) {
		n.slowRefusals()
		n.slow = 900 * time.Millisecond // less than hangsAfter
		n.host -= 80 * Mebi             // soft
		n.takes(500*time.Millisecond, 80)
		n.softAndHard()
		n.watch(15 * time.Second)
		n.evicted("guarded", "next")
		if d := n.decisions[0]; d.Pressure.Threshold.Hard ||
			!strings.Contains(d.Detail, "the hard threshold of memory.available was met meanwhile") {
			t.Errorf("the record of the soft plan: %+v", d)
		}
		same(t, "requests", []asked{{"guarded", -1}, {"next", 3}}, n.graces())
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

// A hard threshold of another signal that was already met had its decision, without a victim: the soft plan
// continues.
func TestHardPressureThatWasThereBeforeDoesNotEndASoftWalk(t *testing.T) {
	story(t, func(n *world) {
		n.slowRefusals()
		n.slow = 4 * time.Second
		n.host -= 80 * Mebi // soft
		n.softAndHard()
		n.threshold(pressure.NodeFSAvailable, pressure.Absolute(100), true)
		n.sampled = n.blindAfter(pressure.NodeFSAvailable, 1<<30) // 9 are available
		n.watch(9 * time.Second)
		n.evicted("guarded", "next")
		if ends := n.decided(func(d *decide.Decision) bool { return strings.Contains(d.Detail, "met meanwhile") }); len(ends) > 0 {
			t.Errorf("the plan was interrupted: %+v", ends[0])
		}
	})
}

// hooked is a node under soft disk pressure, which is under hard memory pressure after two seconds. Both is
// large's most, and a webhook hangs for it.
type hooked struct {
	*world
	hangs string        // the pod's name; "" for none
	late  time.Duration // when such a request is carried out all the same; 0: never
}

func hookedNode(n *world) *hooked {
	h := &hooked{world: n, hangs: "large"}
	n.runs("large 300/10", "next 290/10", "small 100/10")
	n.ends = 20 * time.Second
	n.After(2*time.Second, func() { n.host = 230 * Mebi })
	n.filesystem(pressure.NodeFSAvailable, steps(map[time.Duration]int64{0: 50}))
	for name, used := range map[string]int64{"large": 400, "next": 10, "small": 200} {
		n.disk.measured["uid-"+name] = onDisk(used, 1, 1, 1)
	}
	n.policy.HardGrace, n.policy.Thresholds = 3, HardPolicy().Thresholds
	n.threshold(pressure.NodeFSAvailable, pressure.Absolute(100), false)
	n.intercepts = h.hang
	return h
}

// hang lets a request hang until it is given up, or withdrawn.
func (h *hooked) hang(r evict.Request) func(context.Context) evict.Result {
	if r.Name != h.hangs {
		return nil
	}
	if h.late > 0 {
		h.After(h.late, func() { h.terminate(r.UID) })
	}
	return func(ctx context.Context) evict.Result {
		result := evict.Result{Outcome: evict.Unconfirmed, NoResponse: true, Pending: true, Stays: true, Sent: time.Now()}
		select {
		case <-time.After(evict.RequestTimeout):
		case <-ctx.Done():
			result.Withdrawn, result.Message = true, context.Cause(ctx).Error()
		}
		return result
	}
}

// evictsAtOnce fails the test unless the first pod that was evicted since a time is that one, soon after.
func (h *hooked) evictsAtOnce(since time.Duration, want string, within time.Duration) {
	h.t.Helper()
	for _, d := range h.decided(func(d *decide.Decision) bool { return d.Victim() != nil }) {
		if v := d.Victim(); v.Result.Sent.Sub(h.began) >= since {
			if after := v.Result.Sent.Sub(h.began); v.Entry.Pod.Name != want || after-since > within {
				h.t.Errorf("the victim is %q after %v, want %s at once; holds: %v", v.Entry.Pod.Name, after, want, h.Holds())
			}
			return
		}
	}
	h.t.Errorf("no victim, want %s; holds: %v", want, h.Holds())
}

// A soft request for a disk hangs in a webhook, and is withdrawn because the hard threshold of memory is met.
// Its outcome is unknown: that holds decisions about the disk, and none about memory.
func TestFaultDoubtAboutADiskHoldsUpNoMemoryEviction(t *testing.T) {
	stories(t, map[string]func(*hooked){
		"its pod uses the most memory, too": func(*hooked) {},
		"its pod uses less memory":          func(h *hooked) { h.pod("next").memory = 310 * Mebi },
		"its pod is no candidate any more": func(h *hooked) {
			h.After(1900*time.Millisecond, func() { h.changed("large", bare) })
		},
		"it cannot be read again": func(h *hooked) { h.unlooked = errPlanted() },
	}, func(n *world, _ string, setUp func(*hooked)) {
		h := hookedNode(n)
		setUp(h)
		n.watch(30 * time.Second)
		h.evictsAtOnce(0, "next", 4*time.Second)
	})
}

// The decisions about a disk wait for the request in doubt, again and again. A memory shortage that comes later
// does not wait with them.
func TestFaultRestOfADoubtRestsNoOtherDecision(t *testing.T) {
	story(t, func(n *world) {
		h := hookedNode(n)
		n.After(1900*time.Millisecond, func() { n.changed("large", bare) })
		n.ends = time.Second // the first victim's
		again := 20*time.Second + 300*time.Millisecond
		n.takes(again, 290)
		n.watch(30 * time.Second)
		h.evictsAtOnce(again, "small", 2*time.Second)
	})
}

// A soft plan begins while a hard pressure is held, and its request hangs in a webhook. Once the hard pressure
// is no longer held, the plan is cancelled.
func TestFaultHeldHardPressureEndsASoftWalk(t *testing.T) {
	stories(t, map[string]func(*hooked) (from time.Duration, want string){
		"the pods' use could not be read": func(h *hooked) (time.Duration, string) {
			h.host, h.unread = 230*Mebi, errPlanted()
			h.After(3*time.Second, func() { h.unread = nil })
			return 3 * time.Second, "next"
		},
		"what was in flight sufficed": func(h *hooked) (time.Duration, string) {
			h.stubborn = true
			h.After(10*time.Second, func() { h.host = 550 * Mebi })
			return 10 * time.Second, "small"
		},
	}, func(n *world, _ string, setUp func(*hooked) (time.Duration, string)) {
		h := hookedNode(n)
		from, want := setUp(h)
		n.watch(20 * time.Second)
		h.evictsAtOnce(from, want, 2*time.Second)
	})
}

// The request in doubt was carried out, and the watch is behind: reading the pod shows it. What the pod frees
// counts, and no other pod is evicted.
func TestDoubtAboutADiskThatWasCarriedOutCountsForMemory(t *testing.T) {
	story(t, func(n *world) {
		h := hookedNode(n)
		h.behind, h.late = true, 1990*time.Millisecond
		n.watch(20 * time.Second)
		n.evicted()
		if d := n.acted()[0]; d.Pressure.Threshold.Signal != pressure.NodeFSAvailable ||
			d.Victim().Entry.Pod.Name != "large" {
			t.Errorf("that large was evicted for the disk is not on record: %+v", d)
		}
	})
}

// If there is no other candidate, a pod whose request about a disk is in doubt is evicted because of memory,
// too. It counts once.
func TestPodInDoubtIsEvictedWhereThereIsNoOtherCandidate(t *testing.T) {
	story(t, func(n *world) {
		h := hookedNode(n)
		for _, name := range []string{"next", "small"} {
			n.changed(name, bare)
		}
		n.ends = 0
		n.After(1900*time.Millisecond, func() { h.hangs = "" })
		n.watch(20 * time.Second)
		h.evictsAtOnce(0, "large", 4*time.Second)
		n.counts(1)
		if open := n.inDoubt(); len(open) > 0 {
			t.Errorf("in doubt: %+v", open)
		}
	})
}

// A request about memory ends in doubt while one about a disk is in doubt. The next process knows both, and
// evicts no pod in place of either.
func TestASecondDoubtForgetsNoFirst(t *testing.T) {
	story(t, func(n *world) {
		h := hookedNode(n)
		h.answer = lost
		n.live(2900 * time.Millisecond)
		for range 2 {
			var pods []string
			for _, v := range n.inDoubt() {
				pods = append(pods, v.Name+" "+v.Signal)
			}
			slices.Sort(pods)
			same(t, "in doubt", []string{"large nodefs.available", "next memory.available"}, pods)
			n.live(time.Millisecond)
		}
		h.hangs, h.answer, h.evictions = "", nil, nil
		n.live(10 * time.Second)
		n.evicted("next", "large")
	})
}
