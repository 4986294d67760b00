package agent

import (
	"context"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/decisions"
	"github.com/evictd/evictd/pkg/pressure"
)

// fall is a node whose memory a process of the host eats at a constant rate, so fast that
// nothing is left before the first victim's grace period is over; a spike stops within a
// second of the line.
func fall(t *testing.T, seed uint64, spike bool) (victims []string, decided []decide.Decision) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(seed, 1))
		n := newFakeNode(4000)
		n.ends = 20*time.Second + time.Duration(r.Int64N(int64(15*time.Second)))
		n.slow = time.Duration(r.Int64N(int64(time.Second)))
		n.behind = r.IntN(2) == 0
		minute := func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = new(int64(60)) }
		used := int64(0)
		for i := range 5 + r.IntN(20) {
			memory := 20 + r.Int64N(80)
			n.run(fmt.Sprint("pod-", i), memory, 0, minute)
			used += memory
		}
		n.run("second", 150+r.Int64N(50), 0, minute)
		n.run("first", 450+r.Int64N(200), 0, minute) // more than can ever be missing
		used += n.pods["uid-second"].memory/mebi + n.pods["uid-first"].memory/mebi
		// It takes 4 to 12 s from the threshold, at 400, to the last 5 MiB.
		rate, left, during := 33+r.Int64N(67), int64(5), n.ends+20*time.Second
		if spike {
			left, during = 400-10-r.Int64N(15), 25*time.Second
		}
		n.host = (4000 - used - 900) * mebi
		ctx, stop := context.WithTimeout(t.Context(), during)
		defer stop()
		both := sync.WaitGroup{}
		both.Go(func() { eat(ctx, n, rate, left) })
		both.Go(func() { wobble(ctx, r, n) })
		if err := newAgent(t, n, hardPolicy()).Run(ctx); err != nil {
			t.Errorf("running: %v", err)
		}
		both.Wait()
		victims, decided = n.victims(), n.decisions
		time.Sleep(2 * time.Minute) // until the last victim has ended
	})
	return victims, decided
}

// eat takes so many MiB a second until no more than so many are left.
func eat(ctx context.Context, n *fakeNode, rate, left int64) {
	for ctx.Err() == nil {
		time.Sleep(10 * time.Millisecond)
		n.mu.Lock()
		used := n.host
		for _, p := range n.pods {
			used += p.memory
		}
		n.mu.Unlock()
		if n.capacity-used <= left*mebi {
			return
		}
		n.mu.Lock()
		n.host += rate * mebi / 100
		n.mu.Unlock()
	}
}

// A fall that the first victim's grace period does not outlast takes a second one, says
// why, and takes no third before one of them has ended. The same node with a spike that
// is over takes one.
func TestFallThatOutrunsTheGraceTakesASecond(t *testing.T) {
	t.Parallel()
	told := regexp.MustCompile(`^shop/first is not relied on: its grace ends in 5\ds, memory\.available is exhausted in (\d|1\d)(\.\d)?s$`)
	for seed := range uint64(spikeSeeds()) {
		victims, decided := fall(t, seed, false)
		if diff := cmp.Diff([]string{"first", "second"}, victims); diff != "" {
			t.Errorf("seed %d: victims (-want +got):\n%s", seed, diff)
			continue
		}
		at := slices.IndexFunc(decided, func(d decide.Decision) bool { return d.Verb == decide.Acted && d.Victim().Entry.Pod.Name == "second" })
		if d := &decided[at]; !told.MatchString(d.NotReliedOn) || d.Pressure.Forecast.Exhausted >= time.Minute {
			t.Errorf("seed %d: the second's record says %q, forecast %+v", seed, d.NotReliedOn, d.Pressure.Forecast)
		}
		if victims, _ = fall(t, seed, true); len(victims) != 1 {
			t.Errorf("seed %d: a spike that is over took %v, want one", seed, victims)
		}
	}
}

// bookedLate is a node under hard pressure, with an agent that has seen it fall for so
// long and booked a victim for it before.
func bookedLate(t *testing.T, change func(*Policy)) (*fakeNode, *Agent) {
	t.Helper()
	n := newFakeNode(1000)
	n.stubborn = true
	minute := func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = new(int64(60)) }
	n.run("first", 300, 0, minute)
	n.run("second", 200, 0, minute)
	n.run("third", 190, 0, minute)
	n.host = 100 * mebi
	policy := hardPolicy()
	if change != nil {
		change(&policy)
	}
	return n, newAgent(t, n, policy)
}

// goOn lets the agent tick for a while, in which so many MiB a second are used up.
func goOn(t *testing.T, n *fakeNode, a *Agent, during time.Duration, rate int64) {
	t.Helper()
	for range during / (100 * time.Millisecond) {
		a.tick(t.Context())
		synctest.Wait()
		select {
		case done := <-a.executor.Reports():
			a.takeReport(done)
		default:
		}
		n.host += rate * mebi / 10
		time.Sleep(100 * time.Millisecond)
	}
}

func TestVictimsThatComeTooLate(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		change func(*Policy)
		run    func(t *testing.T, n *fakeNode, a *Agent)
		want   []string
	}{
		{"a fall, and no pod for it within the first second", nil, func(t *testing.T, n *fakeNode, a *Agent) {
			t.Helper()
			goOn(t, n, a, 6*time.Second, 20) // the line is met after 5.5 s
		}, []string{"first"}},
		{"and one after it", nil, func(t *testing.T, n *fakeNode, a *Agent) {
			t.Helper()
			goOn(t, n, a, 8*time.Second, 20)
		}, []string{"first", "second"}},
		{"and no other, while they take their time", nil, func(t *testing.T, n *fakeNode, a *Agent) {
			t.Helper()
			goOn(t, n, a, 12*time.Second, 20)
		}, []string{"first", "second"}},
		{"a soft threshold waits", func(p *Policy) {
			p.Thresholds[0].Hard = false
			p.Thresholds = append(p.Thresholds, pressure.Threshold{
				Signal: pressure.MemoryAvailable, Quantity: pressure.Fraction(0.001), Hard: true,
			})
		}, func(t *testing.T, n *fakeNode, a *Agent) {
			t.Helper()
			goOn(t, n, a, 10*time.Second, 20)
		}, []string{"first"}},
		{"a grace period that is over in time", func(p *Policy) { p.HardGrace = 2 }, func(t *testing.T, n *fakeNode, a *Agent) {
			t.Helper()
			goOn(t, n, a, 8*time.Second, 20)
		}, []string{"first"}},
		{"one of the two has ended", nil, func(t *testing.T, n *fakeNode, a *Agent) {
			t.Helper()
			goOn(t, n, a, 8*time.Second, 20)
			n.pods["uid-second"].memory = 0
			delete(n.pods, "uid-second")
			n.host += 200 * mebi // and other processes have used what it freed
			goOn(t, n, a, 2*time.Second, 20)
		}, []string{"first", "second", "third"}},
		{"the fall is over", nil, func(t *testing.T, n *fakeNode, a *Agent) {
			t.Helper()
			goOn(t, n, a, 6*time.Second, 20)
			goOn(t, n, a, 20*time.Second, 0)
		}, []string{"first"}},
		{"the second would not help", func(p *Policy) { p.MinimumReclaim = pressure.Fraction(0.05) }, func(t *testing.T, n *fakeNode, a *Agent) {
			t.Helper()
			n.host += 380 * mebi
			n.pods["uid-second"].memory, n.pods["uid-third"].memory = mebi/2, mebi/2
			goOn(t, n, a, 9*time.Second, 20)
		}, []string{"first"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n, a := bookedLate(t, test.change)
				test.run(t, n, a)
				n.wantVictims(t, test.want...)
			})
		})
	}
}

// TestTwoThatComeTooLateAreReliedOn: the record says why no pod is evicted while two victims come
// too late.
func TestTwoThatComeTooLateAreReliedOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n, a := bookedLate(t, nil)
		goOn(t, n, a, 10*time.Second, 20)
		a.decisions = decisions.New(a.options.Recorder.Decision, nil) // say it again
		goOn(t, n, a, time.Second, 20)
		if d := n.last(t); d.Hold != decide.HoldReclaimInProgress || d.NotReliedOn != "" ||
			!strings.Contains(d.Detail, "the grace of 2 of them ends only after memory.available is exhausted, in ") {
			t.Errorf("hold %q, %q, not relied on %q", d.Hold, d.Detail, d.NotReliedOn)
		}
	})
}

// TestInvariant09RestartInAFallTakesNoThird: a restart does not evict a third pod: it finds the
// pods in flight again.
func TestInvariant09RestartInAFallTakesNoThird(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n, a := bookedLate(t, nil)
		goOn(t, n, a, 8*time.Second, 20)
		goOn(t, n, newAgent(t, n, hardPolicy()), 4*time.Second, 10)
		n.wantVictims(t, "first", "second")
	})
}

// TestChurnKeepsNoSecondAway: on a node with short jobs pods end all the time without evictd. A pod
// that uses nothing of what is missing does not change which victims come too late.
func TestChurnKeepsNoSecondAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n, a := bookedLate(t, nil)
		for i := range 40 {
			n.run(fmt.Sprint("job-", i), 1, 100, func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = new(int64(60)) })
			n.after(time.Duration(i)*500*time.Millisecond, func() { n.terminate(fmt.Sprint("uid-job-", i)) })
		}
		goOn(t, n, a, 8*time.Second, 20)
		n.wantVictims(t, "first", "second")
	})
}

// One that holds something of what is missing is given the time to show what its end does,
// and counts as one of the two.
func TestVictimOfOthersThatWeighs(t *testing.T) {
	t.Parallel()
	for holds, want := range map[int64][]string{1: {"first", "second"}, 30: {"first"}} {
		synctest.Test(t, func(t *testing.T) {
			n, a := bookedLate(t, nil)
			n.run("theirs", holds, 100, func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = new(int64(60)) })
			n.host -= holds * mebi
			n.after(6*time.Second, func() { n.terminate("uid-theirs") })
			goOn(t, n, a, 8*time.Second, 20)
			n.wantVictims(t, want...)
		})
	}
}
