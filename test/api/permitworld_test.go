package api

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/evictd/evictd/internal/permits"
	"github.com/evictd/evictd/internal/pools"
	"github.com/evictd/evictd/pkg/rank"
	"github.com/evictd/evictd/test/internal/eventually"
	"github.com/evictd/evictd/test/internal/evictdtest"
)

// permitErrors records only the errors of the permits.
type permitErrors struct{ tb testing.TB }

func (permitErrors) Permit(permits.Verdict) {}
func (permitErrors) PermitsHeld(int)        {}

func (e permitErrors) PermitError(err error) {
	if e.tb.Context().Err() == nil {
		e.tb.Log(err)
	}
}

// permitsNode is one node's semaphore, with its own clock.
type permitsNode struct {
	*permits.Semaphore
	name string
	skew time.Duration
}

// permitWorld is a world whose clock the test sets: it stands still on a slow machine.
type permitWorld struct {
	*evictdtest.World

	start time.Time
	clock atomic.Int64 // what has been added to the clock
}

func newPermitWorld(w *evictdtest.World) *permitWorld {
	return &permitWorld{World: w, start: time.Now()}
}

func (s *permitWorld) advance(d time.Duration) { s.clock.Add(int64(d)) }

// semaphore starts a node's semaphore; canceling the context simulates a crash.
func (s *permitWorld) semaphore(ctx context.Context, name string, skew time.Duration, restore bool) *permitsNode {
	s.T.Helper()
	b := permits.New(permits.Options{
		Leases: s.Client.CoordinationV1().Leases(s.Namespace), Node: name,
		Now:    func() time.Time { return s.start.Add(skew + time.Duration(s.clock.Load())) },
		Random: rand.Float64, Recorder: permitErrors{s.T}, Restore: restore,
	})
	go func() { _ = b.Run(ctx) }()
	return &permitsNode{Semaphore: b, name: name, skew: skew}
}

const permitLasts = time.Minute

// always reports every victim as still running.
func always(string) bool { return true }
func never(string) bool  { return false }

// outlast advances the time until a node has renewed its permit.
func (s *permitWorld) outlast(n *permitsNode) {
	s.T.Helper()
	before := s.leases(s.T.Context())[0].Spec.RenewTime
	s.Until("the permit is renewed", func(ctx context.Context) bool {
		s.advance(2 * time.Second)
		n.ReleaseEnded(always, always)
		leases := s.leases(ctx)
		return len(leases) == 1 && holder(&leases[0]) == n.name+"/one" && leases[0].Spec.RenewTime.After(before.Time)
	})
}

// victim is a pod of the only workload.
func victim(uid string) permits.Request {
	return permits.Request{
		Pod:    &rank.Pod{Namespace: "shop", Name: "web-5d4-" + uid, UID: uid, Owner: "ReplicaSet/web-5d4", Labels: map[string]string{"pod-template-hash": "5d4"}},
		Limits: pools.Limits{PerWorkload: 3}, Lasts: permitLasts,
	}
}

func (s *permitWorld) leases(ctx context.Context) []coordinationv1.Lease {
	s.T.Helper()
	list, err := s.Client.CoordinationV1().Leases(s.Namespace).List(ctx, metav1.ListOptions{})
	s.Must(err)
	return list.Items
}

// cached waits until the API server's cache, from which a semaphore reads, has n Leases.
func (s *permitWorld) cached(n int) {
	s.T.Helper()
	s.Until("the API server's cache has the Leases", func(ctx context.Context) bool {
		list, err := s.Client.CoordinationV1().Leases(s.Namespace).List(ctx, metav1.ListOptions{ResourceVersion: "0"})
		return err == nil && len(list.Items) == n
	})
}

// surely requests a permit until the API server, however slow, grants or denies it. A victim that already
// has its permit keeps it.
func surely(ctx context.Context, b *permits.Semaphore, r permits.Request) (answer permits.Answer) {
	_ = eventually.Poll(ctx, func(ctx context.Context) bool {
		answer = b.Acquire(ctx, r)
		return answer.Verdict != permits.Unknown
	})
	return answer
}

func holder(lease *coordinationv1.Lease) string {
	if lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

// count watches the Leases and returns the most that were held at once so far.
func (s *permitWorld) count() func() int {
	s.T.Helper()
	watching, err := s.Client.CoordinationV1().Leases(s.Namespace).Watch(s.T.Context(), metav1.ListOptions{})
	s.Must(err)
	s.T.Cleanup(watching.Stop)
	var mu sync.Mutex
	held, most := map[string]bool{}, 0
	go func() {
		for event := range watching.ResultChan() {
			lease, ok := event.Object.(*coordinationv1.Lease)
			if !ok {
				return
			}
			mu.Lock()
			delete(held, lease.Name)
			if event.Type != watch.Deleted && holder(lease) != "" {
				held[lease.Name] = true
			}
			most = max(most, len(held))
			mu.Unlock()
		}
	}()
	return func() int { mu.Lock(); defer mu.Unlock(); return most }
}
