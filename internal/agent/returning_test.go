package agent

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/incident"
	"github.com/evictd/evictd/internal/measure"
	"github.com/evictd/evictd/internal/testing/measuretest"
	"github.com/evictd/evictd/pkg/evict"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/usage"
)

// slowCollector is a node whose large pod's files are removed 55 s after it has ended, as the
// kubelet does with dead containers; small alone could return what is missing by then.
func slowCollector() *spaceNode {
	n := &spaceNode{signal: pressure.NodeFSAvailable, available: steps(map[time.Duration]int64{0: 90})}
	n.freed = func(ended map[string]time.Duration) int64 {
		if ended["large"] > 55*time.Second {
			return 90
		}
		return 0
	}
	return n
}

// disturb is shortFor with a change 15 s after the start, when the first victim has ended and its
// space is not yet reclaimed.
func disturb(t *testing.T, n *spaceNode, change func(p *Policy), happens func(ctx context.Context, a *Agent)) {
	t.Helper()
	n.prepare()
	policy := n.policy()
	change(&policy)
	a := n.agent(t, policy)
	ctx, stop := context.WithTimeout(t.Context(), 3*time.Minute)
	defer stop()
	time.AfterFunc(15*time.Second, func() { happens(ctx, a) })
	if err := a.Run(ctx); err != nil {
		t.Error(err)
	}
	synctest.Wait()
}

// A victim's space is waited for, whatever happens to the threshold meanwhile.
func TestFaultDiskVictimIsForgottenBeforeItsSpaceIsBack(t *testing.T) {
	t.Parallel()
	same := func(*Policy) {}
	for name, test := range map[string]struct {
		node    func(n *spaceNode)
		change  func(p *Policy)
		happens func(ctx context.Context, n *spaceNode, a *Agent)
	}{
		"the line is touched": {
			func(n *spaceNode) {
				n.available = steps(map[time.Duration]int64{0: 90, 20 * time.Second: 100, 20200 * time.Millisecond: 90})
			}, same, nil,
		},
		"hard after soft": {
			func(n *spaceNode) {
				n.available = steps(map[time.Duration]int64{0: 90, 20 * time.Second: 70})
			},
			func(p *Policy) {
				soft := p.Thresholds[0]
				soft.Hard, soft.Grace = false, time.Second
				p.Thresholds[0].Quantity = pressure.Absolute(80)
				p.Thresholds = append(p.Thresholds, soft)
			}, nil,
		},
		"an edit": {func(*spaceNode) {}, same, func(ctx context.Context, n *spaceNode, a *Agent) { a.Reload(ctx, enforced(n.policy()), n) }},
		"two readings fail": {
			func(n *spaceNode) {
				n.blind = func(since time.Duration) bool { return since > 20*time.Second && since < 23*time.Second }
			},
			same, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n := slowCollector()
				test.node(n)
				disturb(t, n, test.change, func(ctx context.Context, a *Agent) {
					if test.happens != nil {
						test.happens(ctx, n, a)
					}
				})
				n.wantVictims(t, "large")
			})
		})
	}
}

// The kubelet's own victim is waited for too.
func TestFaultKubeletsDiskVictimIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := slowCollector()
		n.available = steps(map[time.Duration]int64{0: 200, 5 * time.Second: 90})
		n.freed = func(map[string]time.Duration) int64 {
			if time.Since(n.started) > 70*time.Second {
				return 90
			}
			return 0
		}
		n.prepare()
		a := n.agent(t, n.policy())
		blocked := true
		n.answer = func(r evict.Request) evict.Result {
			if blocked {
				return evict.Result{Outcome: evict.BlockedByBudget, Budget: "all"}
			}
			return evict.Result{Outcome: evict.Evicted}
		}
		n.after(20*time.Second, func() { // the figures have been read for the refused request
			blocked = false
			evicted := n.pods["uid-large"].api.DeepCopy()
			evicted.Status.Phase, evicted.Status.Reason = corev1.PodFailed, "Evicted"
			n.pods["uid-large"].api, n.pods["uid-large"].noCgroup = evicted, true
		})
		runFor(t, a, 3*time.Minute)
		for i := range n.decisions {
			if n.decisions[i].Verb == decide.Acted {
				t.Errorf("evicted %s", n.decisions[i].Victim().Entry.Pod.Key())
			}
		}
	})
}

// awaited returns how much of nodefs is in flight.
func awaited(a *Agent, now time.Time) (amount int64) {
	p := pressure.Pressure{Threshold: pressure.Threshold{Signal: pressure.NodeFSAvailable, Hard: true}, Observed: pressure.Observation{Available: 1}, SampleTime: now}
	for _, b := range a.victims.For(&decide.Situation{Pressure: p}) {
		amount += b.Expected.At(pressure.NodeFSAvailable)
	}
	return amount
}

// What the kubelet evicted before the shortage began is not waited for.
func TestKubeletsOldVictimsAreNotWaitedFor(t *testing.T) {
	t.Parallel()
	n := newFakeNode(1000)
	a := newAgent(t, n, hardPolicy())
	n.run("old", 1, 0, func(p *corev1.Pod) { p.Status.Phase, p.Status.Reason = corev1.PodFailed, "Evicted" })
	n.run("new", 1, 0)
	a.measurer.Observe(measure.Reading{Uses: map[string]usage.DiskUse{"uid-old": measuretest.DiskUse(50, 0, 0, 0), "uid-new": measuretest.DiskUse(30, 0, 0, 0)}})
	a.incidents.Restore([]incident.Incident{{ID: "x", Short: time.Now()}}, time.Now())
	sample := pressure.Sample{Time: time.Now()}
	for range 2 {
		a.victims.Observe(&sample, a.incidents.Any())
		if amount := awaited(a, sample.Time); amount != 0 {
			t.Errorf("%d are waited for", amount)
		}
		sample.Time = sample.Time.Add(time.Second)
	}
	evicted := n.pods["uid-new"].api.DeepCopy()
	evicted.Status = n.pods["uid-old"].api.Status
	n.pods["uid-new"].api = evicted
	a.victims.Observe(&sample, a.incidents.Any())
	if amount := awaited(a, sample.Time); amount != 30 {
		t.Errorf("%d are waited for, want what the new one held", amount)
	}
}

// TestFaultDryRunsDiskVictimHoldsUpTheFirstRealOne: the simulated victim of a dry run does not hold
// a real eviction.
func TestFaultDryRunsDiskVictimHoldsUpTheFirstRealOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := slowCollector()
		n.prepare()
		n.pods["uid-large"].api.Spec.TerminationGracePeriodSeconds = new(int64)
		policy := n.policy()
		policy.DryRun = true
		a := n.agent(t, policy)
		const reload = 40 * time.Second // long after the grace period of the would-be victim
		ctx, stop := context.WithTimeout(t.Context(), reload+5*time.Second)
		defer stop()
		time.AfterFunc(reload, func() { a.Reload(ctx, enforced(n.policy()), n) })
		if err := a.Run(ctx); err != nil {
			t.Error(err)
		}
		if !slices.ContainsFunc(n.decisions, func(d decide.Decision) bool { return d.Victim() != nil && d.Victim().Result.Outcome == evict.Evicted }) {
			d := n.last(t)
			t.Errorf("the last decision %q %q (%s), want an eviction", d.Verb, d.Hold, d.Detail)
		}
	})
}

// TestFaultDiskVictimKeptByAFinalizerIsReliedOn: a disk victim that has ended, and that only a
// finalizer keeps, is waited for like one that has been deleted, and no longer. Before, it was
// relied on for what it had held until its deadline.
func TestFaultDiskVictimKeptByAFinalizerIsReliedOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := &spaceNode{signal: pressure.NodeFSAvailable, available: steps(map[time.Duration]int64{0: 90})}
		n.freed = func(map[string]time.Duration) int64 { return 0 } // its space comes back to the host
		n.prepare()
		n.stubborn = true
		large := n.pods["uid-large"]
		hour := int64(3600)
		large.api.Spec.TerminationGracePeriodSeconds = &hour
		large.api.Status.ContainerStatuses = []corev1.ContainerStatus{{
			Name: "c", ContainerID: "containerd://1", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
		}}
		policy := n.policy()
		policy.Thresholds[0].Hard, policy.Thresholds[0].Grace = false, time.Second // soft: relied on to the deadline
		a := n.agent(t, policy)
		n.after(15*time.Second, func() { // its containers have ended, and its cgroup was removed
			ended := large.api.DeepCopy()
			ended.Status.ContainerStatuses[0].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}
			large.api, large.noCgroup = ended, true
		})
		runFor(t, a, 15*time.Second+decide.CollectedWithin+5*time.Second)
		n.wantVictims(t, "large", "small")
	})
}

func TestOwnVictimThatTheKubeletEvictsTooIsAwaitedOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := slowCollector()
		n.prepare()
		policy := n.policy()
		a := n.agent(t, policy)
		n.stubborn = true
		ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
		defer stop()
		n.after(13*time.Second, func() {
			p := n.pods["uid-large"]
			failed := p.api.DeepCopy()
			failed.Status.Phase, failed.Status.Reason = corev1.PodFailed, "Evicted"
			p.api, p.noCgroup = failed, true
		})
		if err := a.Run(ctx); err != nil {
			t.Error(err)
		}
		if victims := a.victims.Export().Victims; len(victims) != 1 || victims[0].Phase != decide.Gone {
			t.Errorf("in flight: %+v, want one that has ended", victims)
		}
	})
}

// TestFaultOldDiskRequestInDoubtIsNotWaitedFor: when the next process begins, a request without a
// response is older than the API server may take for one. If its pod has ended meanwhile, its space
// is waited for. If the pod is there and stays, nothing is waited for.
func TestFaultOldDiskRequestInDoubtIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		arrives bool
		want    []string
	}{
		"it was carried out": {true, []string{"large"}},
		"it never arrived":   {false, []string{"large", "large"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n, policy := restartedDisk()
				n.freed = func(ended map[string]time.Duration) int64 {
					if ended["large"] > 70*time.Second {
						return 90
					}
					return 0
				}
				first := &file{t: t}
				var killed *file
				n.answer = func(r evict.Request) evict.Result {
					killed = first.copied()
					if test.arrives {
						n.terminate(r.UID)
					}
					return evict.Result{Outcome: evict.Unconfirmed, NoResponse: true, Pending: true}
				}
				live(t, n.fakeNode, first, policy, time.Second/2, n.parts)
				n.answer = nil
				time.Sleep(decide.DoubtLasts)
				live(t, n.fakeNode, killed, policy, 5*time.Second, n.parts)
				live(t, n.fakeNode, killed, policy, time.Minute, n.parts) // the note of the request is written over
				n.wantVictims(t, test.want...)
				if got := killed.load(); inDoubt(got) != nil || len(got.Cooldown.Accepted) != len(test.want) {
					t.Errorf("%+v in doubt, %d count against the limits, want none and %d", inDoubt(got), len(got.Cooldown.Accepted), len(test.want))
				}
			})
		})
	}
}
