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
	"github.com/evictd/evictd/internal/nodepods"
	"github.com/evictd/evictd/pkg/evict"
	"github.com/evictd/evictd/pkg/pressure"
)

// lost answers every request as if its response had been lost.
func lost(evict.Request) evict.Result {
	return evict.Result{Outcome: evict.Unconfirmed, NoResponse: true, Pending: true, Message: "connection reset"}
}

func TestRequestInDoubtIsResolvedBeforeAnotherPodIsEvicted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(1000)
		n.ends, n.behind = 20*time.Second, true // the watch does not tell either
		n.run("greedy", 500, 100)
		n.run("other", 450, 100)
		n.answer = func(r evict.Request) evict.Result {
			n.terminate(r.UID) // it was carried out
			return lost(r)
		}
		watch(t, n, hardPolicy(), 15*time.Second)
		n.wantVictims(t, "greedy")
		if diff := cmp.Diff([]string{"greedy"}, n.looks); diff != "" {
			t.Errorf("looked into (-want +got):\n%s", diff)
		}
		found := slices.ContainsFunc(n.decisions, func(d decide.Decision) bool {
			return d.Verb == decide.Acted && d.Victim() != nil && d.Victim().Result.Outcome == evict.Evicted
		})
		if !found {
			t.Errorf("that it was evicted is not on record: %+v", n.decisions)
		}
	})
}

func TestRequestInDoubtThatWasNotCarriedOutIsSentAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(1000)
		n.run("greedy", 500, 100)
		n.run("other", 450, 100)
		n.answer = func(r evict.Request) evict.Result {
			if len(n.evictions) == 1 {
				return lost(r)
			}
			return evict.Result{Outcome: evict.Evicted}
		}
		watch(t, n, hardPolicy(), 15*time.Second)
		n.wantVictims(t, "greedy", "greedy")
	})
}

func TestRequestInDoubtOfAPodThatHasEndedIsOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(1000)
		n.ends = 500 * time.Millisecond
		n.run("greedy", 500, 100)
		n.run("other", 450, 100)
		n.answer = func(r evict.Request) evict.Result {
			if len(n.evictions) > 1 {
				return evict.Result{Outcome: evict.Evicted}
			}
			n.terminate(r.UID)
			n.host += 500 * mebi // and the node needs one more
			return lost(r)
		}
		watch(t, n, hardPolicy(), 15*time.Second)
		n.wantVictims(t, "greedy", "other")
	})
}

// TestRequestInDoubtThatTheWatchResolves: the watch may report first that a request without a
// response was carried out: the pod is evictd's victim as if the response had arrived.
func TestRequestInDoubtThatTheWatchResolves(t *testing.T) {
	t.Parallel()
	for name, calm := range map[string]bool{"under pressure": false, "when the pressure is over": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n := newFakeNode(1000)
				n.ends = 20 * time.Second
				n.run("greedy", 500, 100)
				n.run("other", 450, 100)
				n.unlooked = errPlanted()
				n.answer = func(r evict.Request) evict.Result {
					n.after(2500*time.Millisecond, func() {
						n.terminate(r.UID)
						if calm {
							n.host -= 300 * mebi
						}
					})
					return lost(r)
				}
				policy := hardPolicy()
				policy.Limits = cooldown.Limits{PerMinute: 1}
				a := newAgent(t, n, policy)
				runFor(t, a, 10*time.Second)
				n.wantVictims(t, "greedy")
				var outcomes []evict.Outcome
				for _, d := range n.decisions {
					for i := range d.Attempts {
						outcomes = append(outcomes, d.Attempts[i].Result.Outcome)
					}
				}
				if diff := cmp.Diff([]evict.Outcome{evict.Unconfirmed, evict.Evicted}, outcomes); diff != "" {
					t.Errorf("on record (-want +got):\n%s", diff)
				}
				if way := a.victims.All(); len(way) != 1 || way[0].Signal != "memory.available" || way[0].GraceSeconds != 30 {
					t.Errorf("in flight: %+v, want a victim of evictd's", way)
				}
				if _, is := a.cooldown.Node(time.Now()); !is {
					t.Error("it counts against no limit")
				}
				runFor(t, a, 20*time.Second)
				if len(n.ended) != 1 || n.ended[0].Victim.Name != "greedy" {
					t.Errorf("ended: %+v, want greedy", n.ended)
				}
			})
		})
	}
}

// The API server gives a request up after a while. A later deletion of the pod is not
// evictd's, whether or not the pod was seen to stay.
func TestRequestInDoubtForAPodThatAnotherDeletesLater(t *testing.T) {
	t.Parallel()
	for _, stayed := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			n := newFakeNode(1000)
			n.ends = time.Minute
			n.run("greedy", 500, 100)
			n.run("other", 450, 100)
			n.answer = func(r evict.Request) evict.Result {
				n.host -= 300 * mebi
				result := lost(r)
				result.Stays = stayed
				return result
			}
			a := newAgent(t, n, hardPolicy())
			n.after(evict.RequestTimeout+decide.LookTimeout+time.Second, func() { n.terminate("uid-greedy") })
			runFor(t, a, 50*time.Second)
			if len(n.decisions) != 1 || len(n.looks) != 0 {
				t.Errorf("stayed %t: read %v, and it is on record: %+v", stayed, n.looks, n.decisions)
			}
			n.host += 300 * mebi
			runFor(t, a, 5*time.Second)
			n.wantVictims(t, "greedy")
			if way := n.last(t).InFlight; len(way) != 1 || way[0].Signal != "" || a.victims.Terminates("uid-greedy") {
				t.Errorf("stayed %t: in flight: %+v, want one of another's doing", stayed, way)
			}
		})
	}
}

// tellsLate is a fakeNode whose watch reports in the middle of a tick that a pod is terminating.
type tellsLate struct {
	*fakeNode

	armed bool // the next look is the one after which it tells
}

func (f *tellsLate) List() []*nodepods.Pod {
	pods := f.fakeNode.List()
	if f.armed {
		f.armed, f.pods["uid-greedy"].api = false, f.pods["uid-greedy"].leaving
	}
	return pods
}

// TestRequestInDoubtThatTheWatchResolvesWithinATick: the watch may report it between the tick's two
// readings of the list: the pod still counts as evictd's victim.
func TestRequestInDoubtThatTheWatchResolvesWithinATick(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(1000)
		n.behind, n.stubborn, n.unlooked = true, true, errPlanted()
		n.run("greedy", 950, 100)
		late := &tellsLate{fakeNode: n}
		a := newAgent(t, n, hardPolicy(), func(o *Options) { o.Pods = late })
		n.answer = func(r evict.Request) evict.Result {
			n.terminate(r.UID)
			return lost(r)
		}
		a.tick(t.Context())
		a.takeReport(<-a.executor.Reports())
		late.armed = true
		time.Sleep(2 * time.Second) // the API server's back-off
		a.tick(t.Context())
		for _, b := range a.victims.All() {
			t.Errorf("booked as another client's: %+v", b)
		}
		a.tick(t.Context())
		if way := a.victims.All(); len(way) != 1 || way[0].Signal == "" {
			t.Errorf("in flight: %+v, want a victim of evictd's", way)
		}
	})
}

// TestRequestInDoubtThatIsCarriedOutLate: a request may be carried out after the pod was read and
// was still running: no other pod is evicted until the API server has given the request up,
// whatever the ranking says by then.
func TestRequestInDoubtThatIsCarriedOutLate(t *testing.T) {
	t.Parallel()
	for name, meanwhile := range map[string]func(n *fakeNode){
		"another comes first": func(n *fakeNode) { n.pods["uid-other"].memory += 20 * mebi },
		"the pod is protected": func(n *fakeNode) {
			n.changed("greedy", func(p *corev1.Pod) { p.OwnerReferences = nil })
		},
		"a pause": func(n *fakeNode) {
			n.pods["uid-other"].memory += 20 * mebi
			n.host -= 300 * mebi
			n.after(time.Second, func() { n.host += 300 * mebi })
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n := newFakeNode(1000)
				n.ends = 20 * time.Second
				n.run("greedy", 460, 100)
				n.run("other", 450, 100)
				n.host = 30 * mebi
				n.answer = func(r evict.Request) evict.Result {
					if len(n.evictions) > 1 {
						return evict.Result{Outcome: evict.Evicted}
					}
					n.after(3*time.Second, func() { n.terminate(r.UID) })
					n.after(500*time.Millisecond, func() { meanwhile(n) })
					return lost(r)
				}
				watch(t, n, hardPolicy(), 10*time.Second)
				if n.pods["uid-other"].leaving != nil {
					t.Errorf("evicted %v: two are in flight for one deficit", n.victims())
				}
			})
		})
	}
}

// TestRequestInDoubtHoldsTheOthersForABoundedTime: a pod whose requests are all lost does not stop
// evictions: it is retried for evict.RequestTimeout, and once the last request cannot be carried
// out any more, the ranking decides.
func TestRequestInDoubtHoldsTheOthersForABoundedTime(t *testing.T) {
	t.Parallel()
	for during, want := range map[time.Duration]bool{evict.RequestTimeout - time.Second: false, 2*evict.RequestTimeout + 10*time.Second: true} {
		synctest.Test(t, func(t *testing.T) {
			n := newFakeNode(1000)
			n.run("odd", 460, 100)
			n.run("other", 450, 100)
			n.host = 30 * mebi
			n.after(500*time.Millisecond, func() { n.pods["uid-other"].memory += 20 * mebi })
			n.answer = func(r evict.Request) evict.Result {
				if r.Name == "odd" {
					return lost(r)
				}
				return evict.Result{Outcome: evict.Evicted}
			}
			watch(t, n, hardPolicy(), during)
			if got := slices.Contains(n.victims(), "other"); got != want {
				t.Errorf("evicted %v within %v", n.victims(), during)
			}
		})
	}
}

// TestNoOtherPodWhileTheLastRequestIsInDoubt: while the outcome of the last request is unknown, no
// other pod is evicted, and an API server that does not respond is not hammered.
func TestNoOtherPodWhileTheLastRequestIsInDoubt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(1000)
		n.run("greedy", 500, 100)
		n.run("other", 450, 100)
		n.answer, n.unlooked = lost, errPlanted()
		watch(t, n, hardPolicy(), time.Minute)
		n.wantVictims(t, "greedy")
		if got := len(n.looks); got < 10 || got > 12 { // after 1, 3, 7, 13 s, then every 6 s
			t.Errorf("looked %d times in a minute, want about 11", got)
		}
		if d := n.last(t); d.Verb != decide.Held || d.Hold != decide.HoldRequestInDoubt && d.Hold != decide.HoldBackingOff {
			t.Errorf("the record does not say that it is not known: %+v", d)
		}
	})
}

func TestDryRunInDoubtIsNotResolved(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(1000)
		n.run("greedy", 950, 100)
		n.answer = lost
		policy := hardPolicy()
		policy.DryRun = true
		watch(t, n, policy, 10*time.Second)
		if len(n.looks) != 0 || len(n.evictions) < 2 {
			t.Errorf("%d looks and %d requests, want none and some", len(n.looks), len(n.evictions))
		}
	})
}

// Editing the configuration, to switch to a dry run for example, ends what is being
// carried out.
func TestReloadEndsTheWalk(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(1000)
		n.run("guarded", 500, 100)
		n.run("free", 450, 100)
		n.slow = 5 * time.Second
		n.answer = func(evict.Request) evict.Result { return evict.Result{Outcome: evict.BlockedByBudget} }
		a := newAgent(t, n, hardPolicy())
		ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
		defer stop()
		go func() {
			time.Sleep(time.Second)
			policy := hardPolicy()
			policy.DryRun = true
			a.Reload(ctx, enforced(policy), n)
		}()
		if err := a.Run(ctx); err != nil {
			t.Error(err)
		}
		for i, r := range n.evictions {
			if i > 0 && !r.DryRun {
				t.Errorf("%s was evicted for real after the switch to a dry run", r.Name)
			}
		}
		if d := n.decisions[0]; !strings.Contains(d.Detail, "the configuration changed") {
			t.Errorf("the record does not say why the plan ended: %+v", d)
		}
	})
}

// blindLater is a sampler that cannot read one signal after so many samples.
type blindLater struct {
	*fakeNode
	signal pressure.Signal
	sees   int
}

func (b *blindLater) Sample(now time.Time) pressure.Sample {
	sample := b.fakeNode.Sample(now)
	if b.sees--; b.sees < 0 {
		sample.Observations[b.signal] = pressure.Observation{Err: errPlanted()}
	} else if sample.Of(b.signal).State == pressure.Absent {
		sample.Observations[b.signal] = pressure.Observation{State: pressure.Known, Available: 9, Capacity: 9}
	}
	return sample
}

func TestBlindnessEndsTheWalk(t *testing.T) {
	t.Parallel()
	for _, signal := range []pressure.Signal{pressure.MemoryAvailable, pressure.AllocatableMemoryAvailable} {
		t.Run(signal.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n := newFakeNode(1000)
				n.run("guarded", 500, 100)
				n.run("free", 450, 100)
				n.slow = 5 * time.Second
				n.answer = func(evict.Request) evict.Result { return evict.Result{Outcome: evict.BlockedByBudget} }
				policy := hardPolicy()
				policy.Thresholds = append(policy.Thresholds, pressure.Threshold{
					Signal: pressure.AllocatableMemoryAvailable, Quantity: pressure.Absolute(1), Hard: true,
				})
				a := newAgent(t, n, policy)
				a.options.Sampler = &blindLater{n, signal, 10}
				ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
				defer stop()
				if err := a.Run(ctx); err != nil {
					t.Error(err)
				}
				n.wantVictims(t, "guarded")
				if d := n.decisions[0]; !strings.Contains(d.Detail, "could not be read") {
					t.Errorf("the record does not say why the plan ended: %+v", d)
				}
			})
		})
	}
}

func TestBlindSecondLookIsNotARecovery(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(1000)
		n.run("greedy", 950, 100)
		a := newAgent(t, n, hardPolicy())
		a.options.Sampler = &blindLater{n, pressure.MemoryAvailable, 1}
		ctx, stop := context.WithTimeout(t.Context(), 5*time.Millisecond)
		defer stop()
		if err := a.Run(ctx); err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff([]decide.Hold{decide.HoldIncompleteReading}, n.holds()); diff != "" || len(n.evictions) != 0 {
			t.Errorf("%d evictions; holds (-want +got):\n%s", len(n.evictions), diff)
		}
	})
}

func TestOverloadedServerIsNotHammered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(1000)
		n.run("greedy", 500, 100)
		n.run("other", 450, 100)
		n.answer = func(evict.Request) evict.Result {
			return evict.Result{Outcome: evict.Throttled, RetryAfter: 20 * time.Second}
		}
		watch(t, n, hardPolicy(), 50*time.Second)
		n.wantVictims(t, "greedy", "greedy", "greedy")
		if d := n.last(t); d.Hold != decide.HoldBackingOff && d.Verb != decide.Refused {
			t.Errorf("the record does not say that it waits: %+v", d)
		}
	})
}

func TestLimitPerOwner(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(1000)
		n.ends = time.Second
		for _, name := range []string{"a", "b", "c", "d"} {
			n.run(name, 1, 0)
			n.pods["uid-"+name].api.OwnerReferences[0].UID = "rs-of-all"
		}
		n.host = 990 * mebi // no victim helps
		policy := hardPolicy()
		policy.Limits = cooldown.Limits{PerOwnerPerHour: 2}
		watch(t, n, policy, 50*time.Second)
		if d := n.last(t); len(n.evictions) != 2 || d.Hold != decide.HoldLimitReached || !strings.Contains(d.Detail, "perOwnerPerHour") {
			t.Errorf("%d evictions of one owner in 50 s, want 2; the last decision: %+v", len(n.evictions), d)
		}
	})
}

// A dry run that is answered after the dry run has ended is nothing to rely on.
func TestDryRunThatIsAnsweredAfterItsEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(1000)
		n.slow = 2 * time.Second
		n.run("greedy", 950, 100)
		policy := hardPolicy()
		policy.DryRun, policy.Limits = true, cooldown.Limits{PerMinute: 1}
		a := newAgent(t, n, policy)
		ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
		defer stop()
		go func() {
			time.Sleep(time.Second)
			policy.DryRun = false
			a.Reload(ctx, enforced(policy), n)
		}()
		if err := a.Run(ctx); err != nil {
			t.Error(err)
		}
		if len(n.evictions) != 2 || !n.evictions[0].DryRun || n.evictions[1].DryRun {
			t.Errorf("requests %+v, want a dry run and then the real thing", n.evictions)
		}
	})
}

func TestDryRunDoesNotCountAgainstTheLimitsOnceItHasEnded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(1000)
		n.run("greedy", 950, 100)
		policy := hardPolicy()
		policy.DryRun, policy.Limits = true, cooldown.Limits{PerMinute: 1}
		a := newAgent(t, n, policy)
		ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
		defer stop()
		go func() {
			time.Sleep(5 * time.Second)
			policy.DryRun = false
			a.Reload(ctx, enforced(policy), n)
		}()
		if err := a.Run(ctx); err != nil {
			t.Error(err)
		}
		if len(n.evictions) != 2 || !n.evictions[0].DryRun || n.evictions[1].DryRun {
			t.Errorf("requests %+v, want a dry run and then the real thing", n.evictions)
		}
	})
}
