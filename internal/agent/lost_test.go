package agent

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/evictd/evictd/internal/cooldown"
	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/pkg/evict"
)

// forgets is a fakeNode whose API server accepts an eviction and forgets the pod at once.
type forgets struct{ *fakeNode }

func (forgets) Look(context.Context, evict.Request) (evict.Fate, error) { return evict.Ended, nil }

// The answer to the eviction of a pod without a grace period is lost, and the pod has ended
// when it is read again: that was evictd's doing.
func TestFaultLostAnswerOfAPodWithoutGraceCounts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(1000)
		n.run("hog", 500, 100)
		n.run("innocent", 450, 100)
		n.answer = func(r evict.Request) evict.Result {
			n.after(20*time.Second, func() { delete(n.pods, r.UID) })
			return lost(r)
		}
		policy := hardPolicy()
		policy.Limits = cooldown.Limits{PerMinute: 1}
		a := newAgent(t, n, policy, func(o *Options) {
			o.Evictor, o.Pods = forgets{n}, listless{n, "hog", func() bool { return len(n.victims()) == 0 }}
		})
		runFor(t, a, 10*time.Second)
		n.wantVictims(t, "hog")
		way := a.victims.All()
		if len(way) != 1 || way[0].Name != "hog" || way[0].Signal != "memory.available" {
			t.Errorf("in flight: %+v, want a victim of evictd's", way)
		}
		if _, is := a.cooldown.Node(time.Now()); !is {
			t.Error("it counts against no limit")
		}
	})
}

// TestFaultGoneAfterALostRequestCounts: a pod whose first request was lost is evicted again, and
// the API server no longer knows it: the first request was carried out.
func TestFaultGoneAfterALostRequestCounts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := goneNode(20 * time.Second)
		gone := n.answer
		n.answer = func(r evict.Request) evict.Result {
			if len(n.evictions) == 1 {
				return lost(r)
			}
			return gone(r)
		}
		a := newAgent(t, n, hardPolicy())
		runFor(t, a, 10*time.Second)
		n.wantVictims(t, "hog", "hog")
		way := a.victims.All()
		if len(way) != 1 || way[0].Name != "hog" || way[0].Signal != "memory.available" {
			t.Errorf("in flight: %+v, want a victim of evictd's", way)
		}
	})
}

// Each request that is sent again may be carried out for as long as the first: the others are
// kept from the last one on. A load balancer fails over for 32 s, and the API server carries
// the last request out 15 s later.
func TestFaultTheLastLostRequestIsRemembered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(1000)
		n.ends = 20 * time.Second
		n.run("greedy", 500, 100)
		n.run("other", 450, 100)
		n.answer = func(r evict.Request) evict.Result {
			if r.Name != "greedy" {
				return evict.Result{Outcome: evict.Evicted}
			}
			result := lost(r)
			result.Stays = true
			return result
		}
		n.after(51*time.Second, func() { n.terminate("uid-greedy") })
		watch(t, n, hardPolicy(), 60*time.Second)
		if slices.Contains(n.victims(), "other") {
			t.Errorf("evicted %v: two are in flight for one deficit", n.victims())
		}
	})
}

// The API server charges the budget, then deletes the pod. The connection is lost in between, and
// the budget refuses the second request because of the first, which lands ten seconds later: the
// doubt holds until then.
func TestFaultARefusedRetryEndsNoDoubt(t *testing.T) {
	t.Parallel()
	for name, refusal := range map[string]evict.Outcome{
		"by the budget": evict.BlockedByBudget, "by admission": evict.Denied, "by flow control": evict.Throttled,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n := newFakeNode(1000)
				n.ends = 20 * time.Second
				n.run("greedy", 500, 100)
				n.run("other", 450, 100)
				n.answer = func(r evict.Request) evict.Result {
					switch {
					case r.Name != "greedy":
						return evict.Result{Outcome: evict.Evicted}
					case len(n.evictions) == 1:
						n.after(10*time.Second, func() { n.terminate(r.UID) })
						result := lost(r)
						result.Stays = true
						return result
					default:
						return evict.Result{Outcome: refusal}
					}
				}
				watch(t, n, hardPolicy(), 40*time.Second)
				if slices.Contains(n.victims(), "other") {
					t.Errorf("evicted %v: two are in flight for one deficit", n.victims())
				}
			})
		})
	}
}

// A request whose pod could not be read for days is resolved by a read that finds the pod
// leaving: by then that is not evictd's doing, and its grace period stays what it is.
func TestFaultLateAnswerShortensNoOthersGrace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n, policy := newFakeNode(1000), hardPolicy()
		n.run("greedy", 500, 100, func(pod *corev1.Pod) { *pod.Spec.TerminationGracePeriodSeconds = 3600 })
		n.run("other", 450, 100)
		n.stubborn, n.behind = true, true
		n.answer = func(r evict.Request) evict.Result {
			n.host -= 300 * mebi // calm
			return lost(r)
		}
		policy.HardGrace = 20
		a := newAgent(t, n, policy)
		runFor(t, a, time.Hour)
		n.terminate("uid-greedy") // another's doing; the watch does not tell yet
		n.host += 300 * mebi
		n.after(2*time.Second, func() { n.pods["uid-greedy"].api = n.pods["uid-greedy"].leaving })
		n.answer = func(evict.Request) evict.Result { return evict.Result{Outcome: evict.Evicted} }
		runFor(t, a, 3*time.Minute)
		for _, r := range n.evictions[1:] {
			if r.Name == "greedy" {
				t.Errorf("the pod that another has deleted was evicted: %+v", r)
			}
		}
		for _, b := range a.victims.All() {
			if b.Name == "greedy" && b.Signal != "" {
				t.Errorf("it is in flight as evictd's own victim: %+v", b)
			}
		}
	})
}

// losing is a fakeNode whose API server evicts the first pod and loses the answer, half a second
// later: the watch tells first.
type losing struct {
	*fakeNode

	lost bool
}

func (l *losing) Evict(ctx context.Context, r evict.Request) evict.Result {
	if l.lost {
		return l.fakeNode.Evict(ctx, r)
	}
	sent := time.Now()
	l.mu.Lock()
	l.lost, l.evictions = true, append(l.evictions, r)
	l.terminate(r.UID)
	l.mu.Unlock()
	time.Sleep(500 * time.Millisecond)
	return evict.Result{Outcome: evict.Unconfirmed, NoResponse: true, Pending: true, Sent: sent}
}

// TestFaultVictimSeenToLeaveBeforeItsAnswerIsLost: a victim that terminated while its request was
// still pending was taken for one that evictd had not evicted: the eviction was not recorded and
// not counted against a limit.
func TestFaultVictimSeenToLeaveBeforeItsAnswerIsLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(1000)
		n.run("greedy", 950, 100)
		n.ends = 20 * time.Second
		a := newAgent(t, n, hardPolicy())
		a.options.Evictor = &losing{fakeNode: n}
		a.executor = a.newExecutor()
		runFor(t, a, 5*time.Second)
		n.wantVictims(t, "greedy")
		evicted := slices.ContainsFunc(n.decisions, func(d decide.Decision) bool {
			return d.Victim() != nil && d.Victim().Result.Outcome == evict.Evicted
		})
		if booked := a.victims.All(); !evicted || len(booked) != 1 || booked[0].Signal == "" {
			t.Errorf("on record %v, in flight %+v; want the eviction as evictd's own", evicted, booked)
		}
	})
}
