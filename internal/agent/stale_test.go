package agent

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evictd/evictd/internal/decide"
)

// deadWatch is a list of pods whose watch may be dead.
type deadWatch struct {
	listless
	dead *bool
}

func (w deadWatch) Stale() error {
	if *w.dead {
		return errPlanted()
	}
	return nil
}

// With a watch that is dead while evictions work, the pod that takes the node's memory is not
// listed, and its neighbours were evicted for it.
func TestFaultDeadWatchIsAHold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(1000)
		n.run("listed", 60, 10)
		n.run("unlisted", 900, 0)
		dead := true
		a := newAgent(t, n, hardPolicy(), func(o *Options) {
			o.Pods = deadWatch{listless{n, "unlisted", func() bool { return !dead }}, &dead}
		})
		runFor(t, a, 2*time.Minute)
		n.wantVictims(t)
		if diff := cmp.Diff([]decide.Hold{decide.HoldPodsStale}, n.holds()); diff != "" {
			t.Errorf("holds (-want +got):\n%s", diff)
		}
		if err := a.Ready(); err == nil || err.Error() != "no pod is evicted: planted" {
			t.Errorf("ready: %v", err)
		}
		dead = false
		runFor(t, a, 2*time.Second)
		n.wantVictims(t, "unlisted")
	})
}
