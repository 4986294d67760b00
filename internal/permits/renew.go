package permits

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evictd/evictd/pkg/evict"
)

const (
	// ahead is how long before its end a permit is renewed: time for three requests without a
	// response. A victim that ends within its grace period needs no renewal.
	ahead = 20 * time.Second
	// longer is how long a permit is held after its renewal. It is short, because the permit of a
	// lost node is not free before that.
	longer = time.Minute
	// renewalPause is how long after one request to renew the next may follow.
	renewalPause = 2 * time.Second
)

// ReleaseEnded releases the permits of the pods that are not there any more, and has those of pods
// that are terminating renewed for as long as that takes. If a pod is there and not known to be
// terminating, because its request got no response, its permit ends at its time; so does a dry
// run's, whose pod stays. ReleaseEnded does not wait for the API server, and checks only pods that
// hold a permit.
func (b *Semaphore) ReleaseEnded(there, leaving func(uid string) bool) {
	b.mu.Lock()
	now := b.options.Now()
	var over []key
	for k, s := range b.held {
		left := s.expires.Sub(now)
		switch {
		case !there(k.victim):
			over = append(over, k)
		case left > ahead:
		case !s.dryRun && leaving(k.victim):
			b.askToRenew(s, now)
		case left < 0:
			over = append(over, k)
		}
	}
	b.mu.Unlock()
	b.release(over)
}

// askToRenew has a permit renewed. The lock is held.
func (b *Semaphore) askToRenew(s permit, now time.Time) {
	if now.Sub(s.asked) < renewalPause {
		return
	}
	s.due, s.asked = true, now
	b.held[s.key()] = s
	select {
	case b.outlasted <- struct{}{}:
	default: // it is awake already
	}
}

// keep renews the permits that are due until the context ends. Permits are released elsewhere,
// because one that cannot be released is retried until its time is over.
func (b *Semaphore) keep(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-b.outlasted:
		}
		for _, s := range b.due() {
			bounded, cancel := context.WithTimeout(ctx, requestTimeout)
			err := b.renew(bounded, s)
			cancel()
			if err != nil && ctx.Err() == nil {
				b.options.Recorder.PermitError(err)
			}
		}
	}
}

// due returns the permits that are to be renewed.
func (b *Semaphore) due() []permit {
	b.mu.Lock()
	defer b.mu.Unlock()
	var due []permit
	for k, s := range b.held {
		if s.due {
			s.due = false
			b.held[k] = s
			due = append(due, s)
		}
	}
	return due
}

// renew writes the Lease of a permit anew. A permit that another holder has by now, because the API
// server was unavailable for too long, is lost. One whose Lease was deleted is meant to be free.
func (b *Semaphore) renew(ctx context.Context, s permit) error {
	lease, err := b.options.Leases.Get(ctx, s.lease, metav1.GetOptions{})
	switch {
	case evict.IsNotFound(err):
		return b.lose(s, "was deleted")
	case err != nil:
		return fmt.Errorf("reading Lease %s, to renew its permit: %w", s.lease, err)
	case holderOf(lease) != s.identity:
		return b.lose(s, "is held for "+told(lease))
	}
	start, seconds := b.options.Now(), int32(longer/time.Second)
	now := metav1.NewMicroTime(start)
	lease.Spec.RenewTime, lease.Spec.LeaseDurationSeconds = &now, &seconds
	written, err := b.options.Leases.Update(ctx, lease, metav1.UpdateOptions{})
	switch {
	case err == nil:
		b.renewed(s, permit{uid: written.UID, version: written.ResourceVersion, expires: start.Add(longer)})
		return nil
	case apierrors.IsConflict(err), evict.IsNotFound(err):
		return nil // the next try reads what became of it
	case evict.MayBeDone(err):
		b.renewed(s, permit{expires: s.expires})
	}
	return fmt.Errorf("renewing the permit of Lease %s: %w", s.lease, err)
}

// renewed records the version in which a Lease was written, or, without a version, that it may have
// been. A permit that was released meanwhile is released in this version too.
func (b *Semaphore) renewed(before, as permit) {
	after := before
	after.uid, after.version, after.expires = as.uid, as.version, as.expires
	b.mu.Lock()
	k := before.key()
	now, held := b.held[k]
	if held && now.lease == before.lease {
		if now.version == before.version { // else it was taken again since
			after.due, after.asked = now.due, now.asked
			b.held[k] = after
		}
		b.mu.Unlock()
		return
	}
	b.mu.Unlock()
	b.releaseLater(after)
}

// lose forgets a permit that this node does not hold any more, and returns an error when its victim
// should have one.
func (b *Semaphore) lose(s permit, why string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	k := s.key()
	if now, held := b.held[k]; !held || now.version != s.version {
		return nil // it was released, or taken again
	}
	delete(b.held, k)
	b.options.Recorder.PermitsHeld(len(b.held))
	return fmt.Errorf("renewing the permit of Lease %s: it %s, and the victim %s is still terminating", s.lease, why, k.victim)
}
