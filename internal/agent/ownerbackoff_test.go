package agent

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evictd/evictd/internal/cooldown"
	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
)

// of makes a pod one of the controller's, made now by a clock that is off by skew.
func of(controller string, skew time.Duration) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.OwnerReferences[0].Name, p.OwnerReferences[0].UID = controller, types.UID("rs-"+controller)
		p.CreationTimestamp = metav1.NewTime(time.Now().Add(skew).Truncate(time.Second))
	}
}

// pin is a controller that recreates its pod on this node as soon as it has ended.
func pin(ctx context.Context, n *fakeNode, skew time.Duration) {
	for i := 0; ctx.Err() == nil; i++ {
		name := fmt.Sprint("pinned-", i)
		n.run(name, 200, 0, of("pinned", skew))
		for there := true; there && ctx.Err() == nil; {
			time.Sleep(100 * time.Millisecond)
			n.mu.Lock()
			_, there = n.pods["uid-"+name]
			n.mu.Unlock()
		}
	}
}

// pinned is a node under constant pressure with a pod that is pinned to it, whose API
// server's clock is off by skew, after so long.
func pinned(t *testing.T, skew, during time.Duration, change func(*fakeNode, *Agent)) (n *fakeNode) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		n = newFakeNode(1000)
		n.host = 950 * mebi
		ctx, stop := context.WithTimeout(t.Context(), during)
		defer stop()
		go pin(ctx, n, skew)
		synctest.Wait()
		a := newAgent(t, n, hardPolicy())
		if change != nil {
			change(n, a)
		}
		if err := a.Run(ctx); err != nil {
			t.Errorf("running: %v", err)
		}
		time.Sleep(time.Minute)
	})
	return n
}

// A Deployment that is pinned to a node under constant pressure loses a pod logarithmically
// often: at once, again when it is back, and then after 1, 2, 4, 8 and 16 minutes.
func TestPinnedPodIsEvictedLogarithmicallyOften(t *testing.T) {
	t.Parallel()
	for _, skew := range []time.Duration{0, -time.Hour, time.Hour} {
		t.Run(skew.String(), func(t *testing.T) {
			t.Parallel()
			const during = 30 * time.Minute
			n := pinned(t, skew, during, nil)
			if got, most := len(n.evictions), 2+int(math.Log2(during.Minutes())); got != most {
				t.Errorf("%d evictions in %v, want %d", got, during, most)
			}
			at := slices.IndexFunc(n.decisions, func(d decide.Decision) bool { return d.Hold == decide.HoldOwnerBackOff })
			if at < 0 || !strings.Contains(n.decisions[at].Detail, "came back to this node and were evicted again: its pods stay until ") {
				t.Fatalf("holds %v", n.holds())
			}
			for _, e := range n.decisions[at].Ranking.Protected {
				if e.Protection != rank.ProtectedOwnerBackOff || !strings.Contains(e.Detail, "its pods stay until") {
					t.Errorf("%s is %q: %q", e.Pod.Key(), e.Protection, e.Detail)
				}
			}
		})
	}
}

// amnesiac is a node whose agent forgets before each sample which owners' pods came back.
type amnesiac struct {
	*fakeNode

	agent *Agent
}

func (f *amnesiac) Sample(now time.Time) pressure.Sample {
	f.agent.memories.Cooldown = newCooldown(f.agent.policy.Limits, 0)
	return f.fakeNode.Sample(now)
}

// The same without a memory takes hundreds: the test above can fail.
func TestPinnedPodWithoutOwnerBackOffIsEvictedAllTheTime(t *testing.T) {
	t.Parallel()
	n := pinned(t, 0, 30*time.Minute, func(n *fakeNode, a *Agent) { a.options.Sampler = &amnesiac{n, a} })
	if got := len(n.evictions); got < 100 {
		t.Errorf("%d evictions without owner back-off", got)
	}
}

// Replicas that were there all along go one after the other, as they are needed.
func TestReplicasAreEvictedWithoutOwnerBackOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(1000)
		n.host = 800 * mebi
		for i, memory := range []int64{55, 50, 45, 40} {
			n.run(fmt.Sprint("web-", i), memory, 0, of("web", time.Duration(i)*time.Minute))
		}
		n.after(10*time.Second, func() { n.host += 60 * mebi })
		n.after(20*time.Second, func() { n.host += 60 * mebi })
		watch(t, n, hardPolicy(), 30*time.Second)
		if diff := cmp.Diff([]string{"web-0", "web-1", "web-2", "web-3"}, n.victims()); diff != "" {
			t.Errorf("victims (-want +got):\n%s; holds %v", diff, n.holds())
		}
	})
}

// TestOwnerInBackOffLeavesTheNext: while an owner is in back-off the next candidate is evicted.
func TestOwnerInBackOffLeavesTheNext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(1000)
		n.host = 900 * mebi
		a := newAgent(t, n, hardPolicy())
		for i := range 2 {
			made := time.Now().Add(time.Duration(i) * time.Minute)
			a.memories.Cooldown.Accept(cooldown.Victim{Owner: "rs-back", Created: made, Newest: made}, time.Now())
		}
		n.run("back", 60, 0, of("back", 0))
		n.run("next", 50, 0)
		ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
		defer stop()
		if err := a.Run(ctx); err != nil {
			t.Error(err)
		}
		n.wantVictims(t, "next")
	})
}
