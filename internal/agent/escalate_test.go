package agent

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/evictd/evictd/internal/cooldown"
	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/pkg/evict"
	"github.com/evictd/evictd/pkg/pressure"
)

// escalating is a policy with a soft threshold at a fifth, a hard one at a tenth, and a cap of ten
// seconds for the hard one, which is below the one of overdue victims.
func escalating() Policy {
	policy := hardPolicy()
	policy.HardGrace, policy.OverdueGrace = 10, 60
	policy.Thresholds = append(policy.Thresholds, pressure.Threshold{Signal: pressure.MemoryAvailable, Quantity: pressure.Fraction(0.2)})
	return policy
}

// patientNode is a node under soft pressure whose first victim has so many seconds of
// grace and never ends by itself, and under hard pressure after five seconds.
func patientNode(grace int64) *fakeNode {
	n := newFakeNode(1000)
	n.stubborn = true
	n.run("patient", 300, 0, func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = &grace })
	n.run("next", 290, 0)
	n.host = 260 * mebi // 150 left
	n.after(5*time.Second, func() { n.host += 80 * mebi })
	return n
}

// asked is a request: its pod, and the grace period in seconds; -1 is the pod's own.
type asked struct {
	Name    string
	Seconds int64
}

// graces returns the requests in order.
func (n *fakeNode) graces() []asked {
	n.mu.Lock()
	defer n.mu.Unlock()
	all := make([]asked, 0, len(n.evictions))
	for _, r := range n.evictions {
		seconds := int64(-1)
		if r.GraceSeconds != nil {
			seconds = *r.GraceSeconds
		}
		all = append(all, asked{r.Name, seconds})
	}
	return all
}

func TestEscalation(t *testing.T) {
	t.Parallel()
	first, again := asked{"patient", -1}, asked{"patient", 10}
	for _, test := range []struct {
		name   string
		grace  int64
		during time.Duration
		setUp  func(n *fakeNode, policy *Policy)
		want   []asked
	}{
		{
			"while it is relied on: no pod", 3600, decide.HardPatience, func(*fakeNode, *Policy) {},
			[]asked{first},
		},
		{
			"over the patience of hard pressure: the victim again, and no other pod", 3600, decide.HardPatience + 20*time.Second, func(*fakeNode, *Policy) {},
			[]asked{first, again},
		},
		{
			"past its deadline: the victim again", 20, 20*time.Second + decide.DeadlineMargin + 2*time.Second, func(*fakeNode, *Policy) {},
			[]asked{first, again},
		},
		{
			"once: past the new deadline the next one is evicted", 3600, decide.HardPatience + 10*time.Second + decide.DeadlineMargin + 3*time.Second, func(*fakeNode, *Policy) {},
			[]asked{first, again, {"next", 10}},
		},
		{
			"it ends now: no other pod is evicted", 3600, 5 * time.Minute, func(n *fakeNode, _ *Policy) {
				n.after(time.Minute, func() { n.stubborn = false })
			},
			[]asked{first, again},
		},
		{
			"soft pressure does not", 20, time.Minute, func(n *fakeNode, _ *Policy) { n.host -= 80 * mebi },
			[]asked{first, {"next", -1}},
		},
		{
			"without a cap: the next one", 3600, decide.HardPatience + 20*time.Second, func(_ *fakeNode, policy *Policy) { policy.OverdueGrace = 0 },
			[]asked{first, {"next", 10}},
		},
		{
			"by its own cap", 3600, decide.HardPatience + 20*time.Second, func(_ *fakeNode, policy *Policy) { policy.HardGrace = 0 },
			[]asked{first, {"patient", 60}},
		},
		{
			"with a cap that is no shorter: the next one", 10, 30 * time.Second, func(*fakeNode, *Policy) {},
			[]asked{first, {"next", 10}},
		},
		{
			"another client has shortened it already: the next one", 3600, decide.HardPatience + 20*time.Second, func(n *fakeNode, _ *Policy) {
				n.after(10*time.Second, func() { n.terminate("uid-patient", new(int64(10))) })
			},
			[]asked{first, {"next", 10}},
		},
		{
			"it holds nothing any more: the next one", 3600, decide.HardPatience + 20*time.Second, func(n *fakeNode, _ *Policy) {
				n.after(10*time.Second, func() { n.pods["uid-patient"].memory, n.host = 0, n.host+300*mebi })
			},
			[]asked{first, {"next", 10}},
		},
		{
			"it is denied: once, and the next one", 3600, decide.HardPatience + 20*time.Second, func(n *fakeNode, _ *Policy) {
				n.answer = func(r evict.Request) evict.Result {
					if r.Shorten {
						return evict.Result{Outcome: evict.Denied}
					}
					return evict.Result{Outcome: evict.Evicted}
				}
			},
			[]asked{first, again, {"next", 10}},
		},
		{
			"no answer: three times, and the next one", 3600, decide.HardPatience + 30*time.Second, func(n *fakeNode, _ *Policy) {
				n.answer = func(r evict.Request) evict.Result {
					if r.Shorten {
						return lost(r)
					}
					return evict.Result{Outcome: evict.Evicted}
				}
			},
			[]asked{first, again, again, again, {"next", 10}},
		},
		{
			"it counts against no limit", 20, 62 * time.Second, func(_ *fakeNode, policy *Policy) {
				policy.Limits = cooldown.Limits{PerMinute: 1} // reached by the first one until its minute is over
			},
			[]asked{first, again, {"next", 10}},
		},
		{
			"it counts against no limit, and none holds it back", 3600, decide.HardPatience + 20*time.Second, func(n *fakeNode, policy *Policy) {
				policy.Limits = cooldown.Limits{PerMinute: 1}
				n.run("small", 20, 0)
				n.host -= 20 * mebi
				// The ledger does not cover it from here on: one more pod is evicted, and reaches
				// the limit.
				n.after(40*time.Second, func() { n.host += 300 * mebi })
			},
			[]asked{first, {"next", 10}, again},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n, policy := patientNode(test.grace), escalating()
				test.setUp(n, &policy)
				watch(t, n, policy, test.during)
				if diff := cmp.Diff(test.want, n.graces()); diff != "" {
					t.Errorf("requests (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// TestFaultGraceOfManyYearsCostsTheNeighbours: a pod with a grace period of 10^9 seconds ignores SIGTERM
// and takes what becomes free. No other pod goes for that: it gets the grace period of overdue victims.
func TestFaultGraceOfManyYearsCostsTheNeighbours(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n, policy := newFakeNode(1000), hardPolicy()
		policy.OverdueGrace = 60
		n.stubborn = true
		n.run("hog", 400, 0, func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = new(int64(1_000_000_000)) })
		for _, name := range []string{"a", "b", "c", "d", "e"} {
			n.run(name, 60, 50)
		}
		n.host = 220 * mebi // 80 of 100 are left
		n.answer = func(r evict.Request) evict.Result {
			if r.Shorten { // it has had that long: the kubelet kills it
				n.stubborn = false
			}
			return evict.Result{Outcome: evict.Evicted}
		}
		watch(t, n, policy, 15*time.Minute)
		if diff := cmp.Diff([]asked{{"hog", -1}, {"hog", 60}}, n.graces()); diff != "" {
			t.Errorf("requests (-want +got):\n%s", diff)
		}
	})
}

func TestEscalationIsOnRecord(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := patientNode(3600)
		a := newAgent(t, n, escalating())
		runFor(t, a, decide.HardPatience+10*time.Second)
		var escalated []decide.Decision
		for _, d := range n.decisions {
			if d.Verb == decide.Escalated {
				escalated = append(escalated, d)
			}
		}
		if len(escalated) != 1 {
			t.Fatalf("%d escalations on record, want one: %+v", len(escalated), n.decisions)
		}
		victim := escalated[0].Victim()
		if victim == nil || !victim.Escalates || victim.Entry.Position != 0 || victim.Entry.Pod.Usage != 300*mebi {
			t.Errorf("the record %+v", escalated[0])
		}
		b := a.victims.All()[0]
		if b.Escalated.IsZero() || b.GraceSeconds != 10 || !b.Deadline.Equal(b.Escalated.Add(10*time.Second+decide.DeadlineMargin)) {
			t.Errorf("the booking %+v", b)
		}
	})
}

// TestOnlyItsOwnVictimsAreEscalated: a pod that evictd did not evict keeps its grace period, and so
// does a victim from before a restart without a state.
func TestOnlyItsOwnVictimsAreEscalated(t *testing.T) {
	t.Parallel()
	for name, terminate := range map[string]func(*fakeNode){
		"by hand": func(n *fakeNode) { n.terminate("uid-patient") },
		"by the Eviction API, and evictd started again": func(n *fakeNode) {
			n.changed("patient", func(p *corev1.Pod) {
				p.Status.Conditions = append(p.Status.Conditions,
					corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "EvictionByEvictionAPI"})
			})
			n.terminate("uid-patient")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n := patientNode(3600)
				terminate(n)
				watch(t, n, escalating(), decide.HardPatience+20*time.Second)
				if diff := cmp.Diff([]asked{{"next", 10}}, n.graces()); diff != "" {
					t.Errorf("requests (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// TestDryRunEscalatesItsOwn: a dry run escalates its own simulated victims, and no pod that is
// really terminating.
func TestDryRunEscalatesItsOwn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n, policy := patientNode(3600), escalating()
		policy.DryRun = true
		watch(t, n, policy, decide.HardPatience+20*time.Second)
		if diff := cmp.Diff([]asked{{"patient", -1}, {"patient", 10}}, n.graces()); diff != "" {
			t.Errorf("requests (-want +got):\n%s", diff)
		}
		for _, r := range n.evictions {
			if !r.DryRun {
				t.Errorf("%+v is no dry run", r)
			}
		}
	})
	synctest.Test(t, func(t *testing.T) {
		n, policy := patientNode(3600), escalating()
		a := newAgent(t, n, policy)
		time.AfterFunc(10*time.Second, func() {
			policy.DryRun = true
			a.Reload(t.Context(), enforced(policy), n)
		})
		runFor(t, a, decide.HardPatience+20*time.Second)
		if diff := cmp.Diff([]asked{{"patient", -1}, {"next", 10}}, n.graces()); diff != "" {
			t.Errorf("requests (-want +got):\n%s", diff)
		}
	})
}
