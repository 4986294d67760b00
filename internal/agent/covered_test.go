package agent

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/evictd/evictd/pkg/evict"
)

// What is in flight covers the shortage for 60 ms while another pod takes a gigabyte a second:
// the next decision came with the tick after that, a tenth of a second later.
func TestFaultNextDecisionIsLateBehindWhatIsInFlight(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(1000)
		n.host, n.ends, n.slow = 640*mebi, time.Minute, time.Millisecond
		n.run("first", 60, 0)
		n.run("leak", 0, 0, high) // evicted after all others
		began, sent := time.Now(), map[string]time.Duration{}
		n.answer = func(r evict.Request) evict.Result {
			if _, again := sent[r.Name]; !again {
				sent[r.Name] = time.Since(began)
			}
			return evict.Result{Outcome: evict.Evicted}
		}
		for i := range 600 {
			n.after(time.Duration(i)*time.Millisecond, func() { n.pods["uid-leak"].memory += mebi })
		}
		watch(t, n, hardPolicy(), 600*time.Millisecond)
		const line, covered = 200 * time.Millisecond, 60 * time.Millisecond
		if late := sent["first"] - line; sent["first"] == 0 || late > 20*time.Millisecond {
			t.Errorf("first was evicted after %v, want at %v and 20ms later at most", sent["first"], line)
		}
		if late := sent["leak"] - line - covered; sent["leak"] == 0 || late > 20*time.Millisecond || late < 0 {
			t.Errorf("leak was evicted after %v, want after %v and 20ms later at most", sent["leak"], line+covered)
		}
	})
}
