package agent

import (
	"testing"
	"testing/synctest"
	"time"
)

// An agent that knows nothing of the time before evicts one pod in its first minute, where it
// starts under pressure: killed again and again, it would evict a minute's worth each time.
func TestFaultRestartWithoutStateIsCareful(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := leaky("a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l")
		for range 3 {
			live(t, n, nil, limited(6), 10*time.Second)
		}
		n.wantVictims(t, "a", "b", "c")
	})
	synctest.Test(t, func(t *testing.T) { // a calm start has the whole minute
		n := leaky("a", "b", "c", "d", "e", "f", "g", "h")
		short := n.host
		n.host = 0
		n.after(time.Second, func() { n.host = short })
		live(t, n, nil, limited(6), 20*time.Second)
		if got := len(n.victims()); got != 6 {
			t.Errorf("%d were evicted in the first minute, want 6", got)
		}
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
				live(t, n.fakeNode, nil, policy, after, n.parts, notCareful)
				live(t, n.fakeNode, nil, policy, 3*time.Minute, n.parts)
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
		live(t, n.fakeNode, nil, policy, 25*time.Second, n.parts)
		if got := n.victims(); len(got) == 0 || got[0] != "large" {
			t.Errorf("evicted %v before the disk was full, want large first", got)
		}
	})
}
