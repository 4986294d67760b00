package agent

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/evictd/evictd/internal/decide"
)

// An agent that knows nothing of the time before evicts no pod for memory in its first ten seconds:
// replaced again and again, it would evict a pod each time.
func TestFaultRestartWithoutStateIsCareful(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := leaky("a", "b", "c")
		for range 3 {
			live(t, n, nil, limited(6), decide.ShownWithin-time.Second, knowsNothing)
		}
		n.wantVictims(t)
		live(t, n, nil, limited(1), decide.ShownWithin+time.Second, knowsNothing)
		n.wantVictims(t, "a")
	})
}

// The space of a victim from before the start is waited for, whenever the threshold is met: a rollout
// within a minute of its end, and one first reading at the line, took a second pod.
func TestFaultStartWithoutStateAtTheLine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n, policy := restartedDisk()
		n.available = steps(map[time.Duration]int64{0: 90, 20 * time.Second: 100, 21 * time.Second: 90})
		live(t, n.fakeNode, nil, policy, 20*time.Second, n.parts)
		live(t, n.fakeNode, nil, policy, 2*time.Minute, n.parts, knowsNothing)
		n.wantVictims(t, "large")
	})
}

// Guards invariant 9 for disks where the pod was replaced, and its file with it: the space of
// a victim comes back up to a minute after its end, and nothing else is evicted for it.
func TestInvariant09DiskRestartWithoutState(t *testing.T) {
	t.Parallel()
	for _, after := range []time.Duration{5 * time.Second, 11 * time.Second, 14 * time.Second, 30 * time.Second, 60 * time.Second} {
		t.Run(after.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n, policy := restartedDisk()
				live(t, n.fakeNode, nil, policy, after, n.parts)
				live(t, n.fakeNode, nil, policy, 3*time.Minute, n.parts, knowsNothing)
				n.wantVictims(t, "large")
			})
		})
	}
}

// A careful start does not wait where the disk would be full before.
func TestCarefulStartOnADiskThatFills(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n, policy := restartedDisk()
		n.available = sloped(0, 30*time.Second, 95, 0)
		live(t, n.fakeNode, nil, policy, 25*time.Second, n.parts, knowsNothing)
		if got := n.victims(); len(got) == 0 || got[0] != "large" {
			t.Errorf("evicted %v before the disk was full, want large first", got)
		}
	})
}
