package agent

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/evictd/evictd/internal/decide"
)

// A pod of others that is stuck is relied on for one clock, from the moment the line is met, and
// not for longer: an hour before it did not matter.
func TestFaultOldStuckPodIsReliedOnForOneClock(t *testing.T) {
	t.Parallel()
	for name, unfit := range map[string]func(n *fakeNode){
		"terminating": func(n *fakeNode) { n.terminate("uid-stuck") },
		"finished":    func(n *fakeNode) { n.changed("stuck", func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n := newFakeNode(1000)
				n.run("stuck", 500, 0)
				n.run("greedy", 100, 10)
				n.stubborn = true
				unfit(n)
				n.after(time.Hour, func() { n.pods["uid-greedy"].memory = 450 * mebi })
				a := newAgent(t, n, hardPolicy())
				runFor(t, a, time.Hour+decide.HardPatience-time.Second)
				n.wantVictims(t)
				runFor(t, a, 4*time.Second)
				n.wantVictims(t, "greedy")
			})
		})
	}
}

// churnsForOneClock runs pods of others one after the other, a new one each half minute, on a node where
// another pod is over its request: that one goes once the clock is over.
func churnsForOneClock(t *testing.T, ends time.Duration, policy Policy, late time.Duration) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(1000)
		n.ends = ends
		n.run("greedy", 300, 10)
		n.host = 400 * mebi
		n.churn(210, 30*time.Second, 10*time.Minute)
		watch(t, n, policy, 30*time.Second+decide.HardPatience+late)
		n.wantVictims(t, "greedy")
	})
}

// A pod of others that ends each half minute, and is made again, held a node at 290 of 300 MiB for
// half an hour while the pod that is over its request stayed.
func TestFaultPodsThatEndOneAfterTheOtherHoldOneClock(t *testing.T) {
	t.Parallel()
	churnsForOneClock(t, 31*time.Second, hardPolicy(), 5*time.Second)
}

// The clock is the incident's: a line that holds again for a moment each half minute, when the pod of
// others has ended and is made again, began it anew for half an hour.
func TestFaultLineThatHoldsForAMomentBeginsNoClock(t *testing.T) {
	t.Parallel()
	policy := hardPolicy()
	policy.Transition = 5 * time.Minute
	churnsForOneClock(t, 29*time.Second, policy, 30*time.Second)
}

// Under soft pressure a deleted pod with an endless grace period was relied on for a year.
func TestFaultEndlessGraceOfOthersHoldsSoftPressureForOneClock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(1000)
		n.stubborn = true
		endless := int64(1_000_000_000)
		n.run("endless", 300, 0, func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = &endless })
		n.run("greedy", 300, 10)
		n.host = 350 * mebi
		n.terminate("uid-endless")
		policy := hardPolicy()
		policy.Thresholds[0].Hard, policy.Thresholds[0].Grace = false, 30*time.Second
		a := newAgent(t, n, policy)
		runFor(t, a, decide.HardPatience-time.Second)
		n.wantVictims(t)
		runFor(t, a, 4*time.Second)
		n.wantVictims(t, "greedy")
	})
}

// TestNewlyTerminatingPodIsReliedOn: a pod that began to terminate a moment ago is relied on as
// usual, on a node that was calm.
func TestNewlyTerminatingPodIsReliedOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(1000)
		n.run("leaving", 500, 0)
		n.run("greedy", 100, 10)
		n.stubborn = true
		n.after(time.Hour, func() {
			n.terminate("uid-leaving")
			n.pods["uid-greedy"].memory = 450 * mebi
		})
		watch(t, n, hardPolicy(), time.Hour+40*time.Second)
		n.wantVictims(t)
		if diff := cmp.Diff([]decide.Hold{decide.HoldReclaimInProgress}, n.holds()); diff != "" {
			t.Errorf("holds (-want +got):\n%s", diff)
		}
	})
}
