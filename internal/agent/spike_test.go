package agent

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/evictd/evictd/pkg/pressure"
)

// spikeSeeds is how many random spikes a test tries: ten with -short, a hundred without.
func spikeSeeds() int {
	if testing.Short() {
		return 10
	}
	return 100
}

// forgetful is a node whose agent loses its ledger before each sample.
type forgetful struct {
	*fakeNode

	agent *Agent
}

func (f *forgetful) Sample(now time.Time) pressure.Sample {
	f.agent.victims = f.agent.newVictims()
	return f.fakeNode.Sample(now)
}

// spike is a node on which something takes less memory than the first pod of the order will free.
// It has pods of any size, a victim that takes up to the minute of its grace period to end, an API
// server that takes up to three seconds to respond, a watch that may be behind, and memory use that
// changes a little all the time.
func spike(t *testing.T, seed uint64, withLedger bool) (victims []string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(seed, 1))
		n := newFakeNode(4000)
		n.ends = time.Duration(r.Int64N(int64(time.Minute)))
		n.slow = time.Duration(r.Int64N(int64(3 * time.Second)))
		n.behind = !withLedger || r.IntN(2) == 0
		largest := 100 + r.Int64N(900)
		minute := func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = new(int64(60)) }
		n.run("largest", largest, r.Int64N(50), minute)
		used := largest
		for i := range 1 + r.IntN(30) {
			memory := r.Int64N(min(largest-50, 100))
			n.run(fmt.Sprint("pod-", i), memory, r.Int64N(50), minute)
			used += memory
		}
		// 400 must be available; 10 is more than the noise below.
		free, short := 500+r.Int64N(400), 10+r.Int64N(largest-20)
		n.host = (4000 - used - free) * mebi
		n.after(time.Duration(r.Int64N(int64(10*time.Second))), func() { n.host += (free - 400 + short) * mebi })
		ctx, stop := context.WithTimeout(t.Context(), 3*time.Minute)
		defer stop()
		wobbling := sync.WaitGroup{}
		wobbling.Go(func() { wobble(ctx, r, n) })
		a := newAgent(t, n, hardPolicy())
		if !withLedger {
			a.options.Sampler = &forgetful{n, a}
		}
		if err := a.Run(ctx); err != nil {
			t.Errorf("running: %v", err)
		}
		wobbling.Wait()
		time.Sleep(2 * time.Minute) // until the last victim has ended
		victims = n.victims()
	})
	return victims
}

// wobble moves what is used outside of pods by a few MiB, up and down.
func wobble(ctx context.Context, r *rand.Rand, n *fakeNode) {
	for ctx.Err() == nil {
		by := r.Int64N(4 * mebi)
		n.mu.Lock()
		n.host += by
		n.mu.Unlock()
		time.Sleep(time.Duration(1 + r.Int64N(int64(time.Second))))
		n.mu.Lock()
		n.host -= by
		n.mu.Unlock()
	}
}

// Guards invariant 4: a spike that one pod's end relieves takes that pod alone, however
// long it takes to end.
func TestInvariant04ASpikeWorthOneVictimTakesOne(t *testing.T) {
	t.Parallel()
	for seed := range uint64(spikeSeeds()) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			if victims := spike(t, seed, true); len(victims) != 1 || victims[0] != "largest" {
				t.Errorf("%v, want the largest pod alone", victims)
			}
		})
	}
}

// The same without a ledger takes more: the test above can fail.
func TestWithoutALedgerASpikeTakesMore(t *testing.T) {
	t.Parallel()
	more := atomic.Int32{}
	t.Cleanup(func() { // after the seeds
		if int(more.Load()) < spikeSeeds()/2 {
			t.Errorf("only %d of %d spikes took more than one", more.Load(), spikeSeeds())
		}
	})
	for seed := range uint64(spikeSeeds()) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			if len(spike(t, seed, false)) > 1 {
				more.Add(1)
			}
		})
	}
}
