package agent

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/evictd/evictd/internal/cooldown"
	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/pkg/evict"
	"github.com/evictd/evictd/pkg/pressure"
)

// goneNode misses 50 MiB. The API server has forgotten the hog, the watch does not tell, and
// the hog's cgroup holds 500 MiB for the time given.
func goneNode(holds time.Duration) *fakeNode {
	n := newFakeNode(1000)
	n.run("hog", 500, 100)
	n.run("innocent", 450, 100)
	n.answer = func(r evict.Request) evict.Result {
		if r.Name != "hog" {
			return evict.Result{Outcome: taken(r)}
		}
		n.after(holds, func() { delete(n.pods, r.UID) })
		return evict.Result{Outcome: evict.Gone, Message: "pods \"hog\" not found"}
	}
	return n
}

// A 404 of the pod says that the API server has forgotten it, not that its memory is back:
// the attempt ends, and the next decision sees what its cgroup still holds.
func TestFaultGoneEndsTheAttempt(t *testing.T) {
	t.Parallel()
	for name, dryRun := range map[string]bool{"for real": false, "dry run": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n, policy := goneNode(20*time.Second), hardPolicy()
				policy.DryRun, policy.Limits = dryRun, cooldown.Limits{PerMinute: 1}
				a := newAgent(t, n, policy)
				runFor(t, a, 10*time.Second)
				n.wantVictims(t, "hog")
				way := a.victims.All()
				if len(way) != 1 || way[0].Name != "hog" || way[0].Signal != "" || way[0].DryRun ||
					way[0].Expected.At(pressure.MemoryAvailable) != 500*mebi || !way[0].Deadline.Equal(way[0].Accepted.Add(decide.GoneFor)) {
					t.Errorf("in flight: %+v, want the hog for 45 s, as no victim of evictd's", way)
				}
				if reached, is := a.cooldown.Node(time.Now()); is {
					t.Errorf("it counts against a limit: %s", reached.Detail)
				}
				runFor(t, a, 30*time.Second)
				n.wantVictims(t, "hog") // whose memory was enough
			})
		})
	}
}

// What never comes back is waited for 45 s, and the pod is not sent again while the watch
// still lists it.
func TestFaultGoneIsWaitedForABoundedTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := goneNode(time.Hour)
		watch(t, n, hardPolicy(), decide.GoneFor-time.Second)
		n.wantVictims(t, "hog")
	})
	synctest.Test(t, func(t *testing.T) {
		n := goneNode(time.Hour)
		watch(t, n, hardPolicy(), decide.GoneFor+5*time.Second)
		n.wantVictims(t, "hog", "innocent")
	})
}

// The watch may tell between the decision and the request that a pod was replaced. A request
// with the UID of the old one would be retried by the API server for ten seconds, and charge
// the new pod's budget.
func TestFaultPodThatIsNoLongerListedIsNotSent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(1000)
		n.run("guarded", 330, 10)
		n.run("replaced", 310, 10)
		n.run("next", 290, 10)
		n.slow, n.ends = time.Second, time.Hour
		n.answer = func(r evict.Request) evict.Result {
			if r.Name == "guarded" {
				return evict.Result{Outcome: evict.BlockedByBudget}
			}
			return evict.Result{Outcome: taken(r)}
		}
		replaced := func() bool { return len(n.victims()) == 0 }
		a := newAgent(t, n, hardPolicy(), func(o *Options) { o.Pods = listless{n, "replaced", replaced} })
		runFor(t, a, 3*time.Second)
		n.wantVictims(t, "guarded") // what the other's cgroup still holds suffices
		if way := n.last(t).InFlight; len(way) != 1 || way[0].Signal != "" {
			t.Errorf("in flight: %+v, want the pod that is listed no more", way)
		}
	})
}
