package agent

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/evictd/evictd/internal/decide"
)

// A pod that was stuck terminating for an hour when the node became short of memory counted
// as one that had just begun to end, and a process's first eviction waited for it.
func TestFaultOldStuckPodIsOldWhenItCounts(t *testing.T) {
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
				watch(t, n, hardPolicy(), time.Hour+2*time.Second)
				n.wantVictims(t, "greedy")
			})
		})
	}
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

// What is remembered of terminating pods ends with them.
func TestTerminatingPodsAreForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(1000)
		n.run("leaving", 100, 0)
		n.terminate("uid-leaving")
		a := newAgent(t, n, hardPolicy())
		runFor(t, a, 2*time.Minute)
		if now := time.Now(); !a.memories.Victims.EndingSince("uid-leaving", now).Equal(now) {
			t.Error("it is remembered although it has gone")
		}
	})
}
