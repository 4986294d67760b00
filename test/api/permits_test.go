package api

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/evictd/evictd/internal/permits"
	"github.com/evictd/evictd/internal/pools"
	"github.com/evictd/evictd/test/internal/evictdtest"
)

// Twenty nodes request a permit of one workload at the same moment, a hundred times, or 15 with -short. The
// holders either release their permits, or crash and let them expire, by clocks that are
// hours apart. There are never more nodes that believe to hold a permit than permits, and
// their belief matches the API server.
func TestPermitsNeverHaveMoreHoldersThanThereAre(t *testing.T) {
	t.Parallel()
	s := newPermitWorld(evictdtest.NewWorld(t))
	const nodes = 20
	rounds := 100
	if testing.Short() { // the gate's
		rounds = 15
	}
	most := s.count()
	all := make([]*permitsNode, nodes)
	for i := range all {
		all[i] = s.semaphore(t.Context(), fmt.Sprintf("node-%d", i), time.Duration(i-nodes/2)*time.Hour, false)
	}
	granted, takenOver := 0, 0
	for round := range rounds {
		holders := make([]string, nodes)
		begin := make(chan struct{})
		var racing sync.WaitGroup
		for i, n := range all {
			racing.Go(func() {
				<-begin
				uid := fmt.Sprintf("%d-%d", round, i)
				switch answer := surely(t.Context(), n.Semaphore, victim(uid)); answer.Verdict {
				case permits.Granted:
					holders[i] = n.name + "/" + uid
				case permits.Unknown:
					t.Errorf("round %d: %s", round, answer.Detail)
				case permits.Full:
				}
			})
		}
		close(begin)
		racing.Wait()
		written := map[string]bool{}
		for _, lease := range s.leases(t.Context()) {
			written[holder(&lease)] = true
			if *lease.Spec.LeaseTransitions > 0 {
				takenOver++
			}
		}
		held := 0
		for _, identity := range holders {
			if identity == "" {
				continue
			}
			held++
			if !written[identity] {
				t.Errorf("round %d: %s thinks that it holds a permit, and the API server has %v", round, identity, written)
			}
		}
		granted += held
		if held > 3 {
			t.Fatalf("round %d: %d nodes think that they hold one of 3 permits", round, held)
		}
		if round%2 == 0 { // they crash, and their permits expire
			var looking sync.WaitGroup
			for i := range all {
				if holders[i] != "" {
					all[i] = s.semaphore(t.Context(), all[i].name, all[i].skew, false)
				}
				looking.Go(func() { // a permit expires that long after its current state was first seen
					if answer := surely(t.Context(), all[i].Semaphore, victim(fmt.Sprintf("%d-%d-again", round, i))); answer.Verdict != permits.Full {
						t.Errorf("round %d: %s while all permits are held: %+v", round, all[i].name, answer)
					}
				})
			}
			looking.Wait()
			s.advance(permitLasts + time.Second)
			continue
		}
		for _, n := range all {
			n.ReleaseEnded(never, never)
		}
		s.Until("the permits are released", func(ctx context.Context) bool { return len(s.leases(ctx)) == 0 })
	}
	t.Logf("%d permits granted in %d rounds, %d of them taken over; at most %d held at once", granted, rounds, takenOver, most())
	if granted < rounds || takenOver < rounds/2 || most() > 3 {
		t.Errorf("%d permits granted, %d taken over, at most %d held at once: the test shows nothing, or too many were held", granted, takenOver, most())
	}
}

// Ten nodes request permits at the same moment, each for a pod of another workload. The cluster's
// permits are shared by all; a node that gets none of them keeps none of its workload's.
func TestPermitsOfTheClusterAreSharedByAllWorkloads(t *testing.T) {
	t.Parallel()
	s := newPermitWorld(evictdtest.NewWorld(t))
	const nodes, rounds, most = 10, 15, 3
	all := make([]*permitsNode, nodes)
	for i := range all {
		all[i] = s.semaphore(t.Context(), fmt.Sprintf("node-%d", i), 0, false)
	}
	total := 0
	for round := range rounds {
		var granted atomic.Int32
		begin := make(chan struct{})
		var racing sync.WaitGroup
		for i, n := range all {
			racing.Go(func() {
				<-begin
				r := victim(fmt.Sprintf("%d-%d", round, i))
				r.Pod.Owner, r.Limits = fmt.Sprintf("Job/night-%d", i), pools.Limits{PerWorkload: 1, PerCluster: most}
				switch answer := surely(t.Context(), n.Semaphore, r); {
				case answer.Verdict == permits.Granted:
					granted.Add(1)
				case answer.Verdict == permits.Unknown || answer.Pool.Name != pools.Cluster:
					t.Errorf("round %d, %s: %+v", round, n.name, answer)
				}
			})
		}
		close(begin)
		racing.Wait()
		held := int(granted.Load())
		if held > most {
			t.Fatalf("round %d: %d nodes hold one of %d permits", round, held, most)
		}
		total += held
		s.Until("the others have released the permits of their workloads", func(ctx context.Context) bool { return len(s.leases(ctx)) == 2*held })
		for _, n := range all {
			n.ReleaseEnded(never, never)
		}
		s.Until("the permits are released", func(ctx context.Context) bool { return len(s.leases(ctx)) == 0 })
	}
	if total < rounds {
		t.Errorf("%d permits were granted in %d rounds: the test shows nothing", total, rounds)
	}
}

// A permit is free when its victim has ended, and not before, even if the process that
// acquired it was killed; nothing is left behind.
func TestPermitsAreFoundAgainAfterAKill(t *testing.T) {
	t.Parallel()
	s := newPermitWorld(evictdtest.NewWorld(t))
	request := victim("one")
	request.Limits.PerWorkload = 1
	life, kill := context.WithCancel(t.Context())
	if answer := surely(t.Context(), s.semaphore(life, "node-a", 0, false).Semaphore, request); answer.Verdict != permits.Granted {
		t.Fatalf("the first of all: %+v", answer)
	}
	kill()
	s.cached(1)
	again, other := s.semaphore(t.Context(), "node-a", 0, true), s.semaphore(t.Context(), "node-b", -5*time.Hour, false)
	next := victim("two")
	next.Limits.PerWorkload = 1
	if answer := surely(t.Context(), other.Semaphore, next); answer.Verdict != permits.Full || !strings.Contains(answer.Detail, "shop/web-5d4-one on node-a") {
		t.Fatalf("another node's request while the permit is held: %+v", answer)
	}
	s.Until("the second process gives the permit back once its victim has ended", func(ctx context.Context) bool {
		again.ReleaseEnded(never, never)
		return len(s.leases(ctx)) == 0
	})
	s.cached(0)
	if answer := surely(t.Context(), other.Semaphore, next); answer.Verdict != permits.Granted {
		t.Errorf("another node's request once the victim has ended: %+v", answer)
	}
}

// A victim that takes longer than its permit lasts keeps it while its node is alive, even
// across a restart; then the next pod is evicted.
func TestVictimThatOutlastsItsPermitKeepsIt(t *testing.T) {
	t.Parallel()
	s := newPermitWorld(evictdtest.NewWorld(t))
	request, next := victim("one"), victim("two")
	request.Limits.PerWorkload, next.Limits.PerWorkload = 1, 1
	life, kill := context.WithCancel(t.Context())
	n, other := s.semaphore(life, "node-a", 0, false), s.semaphore(t.Context(), "node-b", 3*time.Hour, false)
	if answer := surely(t.Context(), n.Semaphore, request); answer.Verdict != permits.Granted {
		t.Fatalf("the first of all: %+v", answer)
	}
	waits := func(when string) {
		t.Helper()
		if answer := surely(t.Context(), other.Semaphore, next); answer.Verdict != permits.Full {
			t.Fatalf("%s: %+v, want it to wait", when, answer)
		}
	}
	waits("at first")
	for i := range 3 {
		s.outlast(n)
		waits(fmt.Sprintf("renewed %d times", i+1))
	}
	kill()
	n = s.semaphore(t.Context(), "node-a", 0, true)
	s.outlast(n)
	waits("renewed by the next process")
	s.Until("the permit is released once the victim has ended", func(ctx context.Context) bool {
		n.ReleaseEnded(never, never)
		return len(s.leases(ctx)) == 0
	})
	if answer := surely(t.Context(), other.Semaphore, next); answer.Verdict != permits.Granted {
		t.Errorf("the next, once the victim has ended: %+v", answer)
	}
}

// A node does not return. Its permit is free when it has not changed for its own duration,
// by the clock of the waiting node. A permit that no node waits for is removed.
func TestPermitOfALostNode(t *testing.T) {
	t.Parallel()
	s := newPermitWorld(evictdtest.NewWorld(t))
	request := victim("one")
	request.Limits.PerWorkload = 1
	life, kill := context.WithCancel(t.Context())
	if answer := surely(t.Context(), s.semaphore(life, "lost", 3*time.Hour, false).Semaphore, request); answer.Verdict != permits.Granted {
		t.Fatalf("the first of all: %+v", answer)
	}
	kill()
	s.cached(1)
	next := victim("two")
	next.Limits.PerWorkload = 1
	other := s.semaphore(t.Context(), "node-b", 0, false)
	take := func(want permits.Verdict, when string) {
		t.Helper()
		if answer := surely(t.Context(), other.Semaphore, next); answer.Verdict != want {
			t.Fatalf("%s: %+v, want %s", when, answer, want)
		}
	}
	take(permits.Full, "seen for the first time")
	s.advance(permitLasts - time.Second)
	take(permits.Full, "just before its end")
	s.advance(2 * time.Second)
	take(permits.Granted, "after its end")
	s.advance(permitLasts + 25*time.Hour)
	s.semaphore(t.Context(), "node-c", 0, true)
	s.Until("a permit that is not released is removed", func(ctx context.Context) bool { return len(s.leases(ctx)) == 0 })
}

func TestPermitsInADryRunWriteNothing(t *testing.T) {
	t.Parallel()
	s := newPermitWorld(evictdtest.NewWorld(t))
	n := s.semaphore(t.Context(), "node-a", 0, false)
	request := victim("one")
	request.Limits.PerWorkload, request.DryRun = 1, true
	if answer := surely(t.Context(), n.Semaphore, request); answer.Verdict != permits.Granted || len(s.leases(t.Context())) != 0 {
		t.Errorf("%+v, and %d Leases, want none", answer, len(s.leases(t.Context())))
	}
	next := victim("two")
	next.Limits.PerWorkload, next.DryRun = 1, true
	if answer := surely(t.Context(), n.Semaphore, next); answer.Verdict != permits.Full {
		t.Errorf("the second of this node's: %+v, want what it would be for real", answer)
	}
	next.DryRun = false
	if answer := surely(t.Context(), n.Semaphore, next); answer.Verdict != permits.Granted || len(s.leases(t.Context())) != 1 {
		t.Errorf("for real: %+v, and %d Leases, want one", answer, len(s.leases(t.Context())))
	}
}
