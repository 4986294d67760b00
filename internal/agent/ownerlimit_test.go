package agent

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/evictd/evictd/internal/cooldown"
	"github.com/evictd/evictd/internal/decide"
)

// TestFaultOwnersLimitTakesPodsWithinTheirRequests: the pods of one owner leak, and one of them may go in
// an hour. Then no pod within its request goes in place of the others, although the node is nearly
// exhausted; one that exceeds its own may.
func TestFaultOwnersLimitTakesPodsWithinTheirRequests(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		other, fast bool
		want        []string
	}{
		"leaks alone":          {false, false, []string{"leak-a"}},
		"another that exceeds": {true, false, []string{"leak-a", "other"}},
		"a fast fall":          {false, true, []string{"leak-a"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n := newFakeNode(1000)
				for _, leak := range []string{"leak-a", "leak-b", "leak-c"} {
					n.run(leak, 150, 50)
					n.pods["uid-"+leak].api.OwnerReferences[0].UID = "rs-leak"
				}
				n.run("quiet", 200, 300)
				if test.other {
					n.run("other", 60, 10)
					n.host = -60 * mebi
				}
				n.host += 280 * mebi // 70 of 100 are left
				if test.fast {
					n.leakFrom(20*time.Second, 20*mebi, 10*time.Second) // they would not last for 30 s
				} else {
					n.after(20*time.Second, func() { n.host += 200 * mebi })
				}
				policy := untilExhaustionPolicy()
				policy.Limits = cooldown.Limits{PerOwnerPerHour: 1}
				watch(t, n, policy, 2*time.Minute)
				n.wantVictims(t, test.want...)
				d := n.last(t)
				if d.Hold != decide.HoldLimitReached || !strings.Contains(d.Detail, "1 of its owner's pods went in the last hour, limits.perOwnerPerHour is 1") {
					t.Errorf("%s: %s", d.Hold, d.Detail)
				}
			})
		})
	}
}
