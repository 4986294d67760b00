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
	var over []string
	for uid, s := range b.held {
		left := s.expires.Sub(now)
		switch {
		case !there(uid):
			over = append(over, uid)
		case left > ahead:
		case !s.dryRun && leaving(uid):
			b.askToRenew(uid, s, now)
		case left < 0:
			over = append(over, uid)
		}
	}
	b.mu.Unlock()
	for _, uid := range over {
		b.Release(uid)
	}
}

// askToRenew has a permit renewed. The lock is held.
func (b *Semaphore) askToRenew(uid string, s permit, now time.Time) {
	if now.Sub(s.asked) < renewalPause {
		return
	}
	s.due, s.asked = true, now
	b.held[uid] = s
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
		for uid, s := range b.due() {
			bounded, cancel := context.WithTimeout(ctx, requestTimeout)
			err := b.renew(bounded, uid, s)
			cancel()
			if err != nil && ctx.Err() == nil {
				b.options.Recorder.PermitError(err)
			}
		}
	}
}

// due returns the permits that are to be renewed, by their victims' UIDs.
func (b *Semaphore) due() map[string]permit {
	b.mu.Lock()
	defer b.mu.Unlock()
	due := map[string]permit{}
	for uid, s := range b.held {
		if s.due {
			s.due = false
			b.held[uid], due[uid] = s, s
		}
	}
	return due
}

// renew writes the Lease of a permit anew. A permit that another holder has by now, because the API
// server was unavailable for too long, is lost. One whose Lease was deleted is meant to be free.
func (b *Semaphore) renew(ctx context.Context, uid string, s permit) error {
	lease, err := b.options.Leases.Get(ctx, s.lease, metav1.GetOptions{})
	switch {
	case evict.IsNotFound(err):
		return b.lose(uid, s, "was deleted")
	case err != nil:
		return fmt.Errorf("reading Lease %s, to renew its permit: %w", s.lease, err)
	case holderOf(lease) != s.identity:
		return b.lose(uid, s, "is held for "+told(lease))
	}
	start, seconds := b.options.Now(), int32(longer/time.Second)
	now := metav1.NewMicroTime(start)
	lease.Spec.RenewTime, lease.Spec.LeaseDurationSeconds = &now, &seconds
	written, err := b.options.Leases.Update(ctx, lease, metav1.UpdateOptions{})
	switch {
	case err == nil:
		b.renewed(uid, s, permit{uid: written.UID, version: written.ResourceVersion, expires: start.Add(longer)})
		return nil
	case apierrors.IsConflict(err), evict.IsNotFound(err):
		return nil // the next try reads what became of it
	case evict.MayBeDone(err):
		b.renewed(uid, s, permit{expires: s.expires})
	}
	return fmt.Errorf("renewing the permit of Lease %s: %w", s.lease, err)
}

// renewed records the version in which a Lease was written, or, without a version, that it may have
// been. A permit that was released meanwhile is released in this version too.
func (b *Semaphore) renewed(uid string, before, as permit) {
	after := before
	after.uid, after.version, after.expires = as.uid, as.version, as.expires
	b.mu.Lock()
	now, held := b.held[uid]
	if held && now.lease == before.lease {
		if now.version == before.version { // else it was taken again since
			after.due, after.asked = now.due, now.asked
			b.held[uid] = after
		}
		b.mu.Unlock()
		return
	}
	b.mu.Unlock()
	b.releaseLater(after)
}

// lose forgets a permit that this node does not hold any more, and returns an error when its victim
// should have one.
func (b *Semaphore) lose(uid string, s permit, why string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if now, held := b.held[uid]; !held || now.version != s.version {
		return nil // it was released, or taken again
	}
	delete(b.held, uid)
	b.options.Recorder.PermitsHeld(len(b.held))
	return fmt.Errorf("renewing the permit of Lease %s: it %s, and the victim %s is still terminating", s.lease, why, uid)
}
