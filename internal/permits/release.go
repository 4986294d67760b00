package permits

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/evictd/evictd/pkg/evict"
)

const (
	// requestTimeout bounds one request that releases or looks for permits.
	requestTimeout = 5 * time.Second
	// What failed is tried again after a second, then after twice as long each time.
	firstWait   = time.Second
	longestWait = 6 * time.Second
	// jitter keeps the agents of many nodes from coming back together.
	jitter = 0.2
	// abandoned is how long after its end by the clock a permit of another node counts as one that
	// will not be released: more than clocks differ.
	abandoned = 24 * time.Hour
)

// Release releases the permits of a pod that stays. It does not wait for the API server.
func (b *Semaphore) Release(uid string) {
	b.mu.Lock()
	var all []key
	for k := range b.held {
		if k.victim == uid {
			all = append(all, k)
		}
	}
	b.mu.Unlock()
	b.release(all)
}

func (b *Semaphore) release(all []key) {
	for _, k := range all {
		b.mu.Lock()
		s, held := b.held[k]
		delete(b.held, k)
		b.options.Recorder.PermitsHeld(len(b.held))
		b.mu.Unlock()
		if held {
			b.releaseLater(s)
		}
	}
}

func (b *Semaphore) releaseLater(s permit) {
	if s.dryRun {
		return // there is nothing to release
	}
	b.mu.Lock()
	b.back = append(b.back, s)
	b.mu.Unlock()
	select {
	case b.returned <- struct{}{}:
	default: // it is awake already
	}
}

// Run releases the permits that are due for release, and renews those that are kept, until the
// context ends. Permits that are still held then are found by the next process, or expire.
func (b *Semaphore) Run(ctx context.Context) error {
	var keeping sync.WaitGroup
	keeping.Go(func() { b.keep(ctx) })
	defer keeping.Wait()
	if b.options.Restore {
		b.persist(ctx, time.Time{}, b.restoreIfAllowed)
	}
	for {
		b.mu.Lock()
		back := b.back
		b.back = nil
		b.mu.Unlock()
		for _, s := range back {
			b.persist(ctx, s.expires, func(ctx context.Context) error { return b.remove(ctx, s) })
		}
		select {
		case <-ctx.Done():
			return nil
		case <-b.returned:
		}
	}
}

// persist repeats an action until it succeeds, or until the given time, after which it is not
// needed any more; the zero time is never.
func (b *Semaphore) persist(ctx context.Context, until time.Time, do func(context.Context) error) {
	backoff := wait.Backoff{Duration: firstWait, Factor: 2, Cap: longestWait, Steps: math.MaxInt32, Jitter: jitter}
	_ = backoff.DelayFunc().Until(ctx, true, true, func(ctx context.Context) (bool, error) {
		bounded, cancel := context.WithTimeout(ctx, requestTimeout)
		defer cancel()
		err := do(bounded)
		if err == nil || ctx.Err() != nil {
			return true, nil
		}
		b.options.Recorder.PermitError(err)
		return !until.IsZero() && b.options.Now().After(until), nil
	}) // it ends with the context otherwise
}

// remove deletes the Lease of a permit, in the version in which it was written and in no other:
// another holder may have it by now.
func (b *Semaphore) remove(ctx context.Context, s permit) error {
	if s.version == "" {
		lease, err := b.options.Leases.Get(ctx, s.lease, metav1.GetOptions{})
		switch {
		case evict.IsNotFound(err):
			return nil
		case err != nil:
			return fmt.Errorf("reading Lease %s, to release its permit: %w", s.lease, err)
		case holderOf(lease) != s.identity, b.uses(s): // or it was taken again since
			return nil
		}
		s.uid, s.version = lease.UID, lease.ResourceVersion
	}
	err := b.options.Leases.Delete(ctx, s.lease, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &s.uid, ResourceVersion: &s.version},
	})
	if err == nil || evict.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return fmt.Errorf("releasing the permit of Lease %s: %w", s.lease, err)
}

// restoreIfAllowed restores, or continues without and reports it when the right to list is missing:
// permits must be released all the same.
func (b *Semaphore) restoreIfAllowed(ctx context.Context) error {
	err := b.restore(ctx)
	if apierrors.IsForbidden(err) {
		b.options.Recorder.PermitError(err)
		return nil
	}
	return err
}

// restore finds the permits that this node held when its evictd was killed, because the victims may
// still be in flight. It also removes the Leases of nodes that do not come back; one that cannot be
// removed does not affect this node's own.
func (b *Semaphore) restore(ctx context.Context) error {
	list, err := b.options.Leases.List(ctx, metav1.ListOptions{LabelSelector: LabelPermit})
	if err != nil {
		return fmt.Errorf("looking for permits from before the start: %w", err)
	}
	for i := range list.Items {
		lease := &list.Items[i]
		s := permit{pool: lease.Annotations[AnnotationWorkload], lease: lease.Name, identity: holderOf(lease), uid: lease.UID, version: lease.ResourceVersion}
		node, _, _ := strings.Cut(s.identity, "/")
		switch {
		case node == b.options.Node:
			b.readopt(s, durationOf(lease))
		case b.isAbandoned(lease):
			if err := b.remove(ctx, s); err != nil {
				b.options.Recorder.PermitError(err) // and the next start tries again
			}
		}
	}
	return nil
}

// readopt takes over a permit whose victim is not known to this process. When the process already
// holds one of the pool for the victim, it has acquired the permit again itself.
func (b *Semaphore) readopt(s permit, lasts time.Duration) {
	s.expires = b.options.Now().Add(lasts)
	if index, err := strconv.Atoi(s.lease[strings.LastIndex(s.lease, "-")+1:]); err == nil {
		s.index = index // it only says where to look first
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, held := b.held[s.key()]; !held {
		b.note(s)
	}
}

func (b *Semaphore) isAbandoned(lease *coordinationv1.Lease) bool {
	renewed := lease.Spec.RenewTime
	return renewed != nil && b.options.Now().Sub(renewed.Time) > durationOf(lease)+abandoned
}
