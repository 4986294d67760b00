package permits

import (
	"context"
	"fmt"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evictd/evictd/pkg/evict"
)

// look reads the Leases of a pool, by their names. It reads from the API server's cache
// (resource version 0), which costs the server little when many nodes read at once. A stale Lease
// makes a request too late, or repeats it, and never gives a permit two holders.
func (b *Semaphore) look(ctx context.Context, pool string) (map[string]*coordinationv1.Lease, error) {
	list, err := b.options.Leases.List(ctx, metav1.ListOptions{
		LabelSelector: LabelPermit + "=" + hashOf(pool), ResourceVersion: "0",
	})
	if err != nil {
		return nil, fmt.Errorf("listing the Leases of its permits: %w", err)
	}
	leases := make(map[string]*coordinationv1.Lease, len(list.Items))
	for i := range list.Items {
		leases[list.Items[i].Name] = &list.Items[i]
	}
	return leases, nil
}

// try acquires a permit by its Lease, nil when there is none, and reports whether it was in time.
// An error means that the result is not known.
func (b *Semaphore) try(ctx context.Context, lease *coordinationv1.Lease, pool string, index int, r *Request) (won bool, err error) {
	if lease == nil {
		lease = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: leaseName(pool, index)}}
	}
	taken := permit{
		pool: pool, index: index, lease: lease.Name, identity: b.identity(r.Pod.UID),
		expires: b.options.Now().Add(r.Lasts), dryRun: r.DryRun,
	}
	b.fill(lease, pool, r)
	written, err := b.write(ctx, lease, r.DryRun)
	switch {
	case err == nil:
		taken.uid, taken.version = written.UID, written.ResourceVersion
		b.hold(taken)
		return true, nil
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err), evict.IsNotFound(err):
		return false, nil
	case evict.MayBeDone(err) && !r.DryRun:
		b.releaseLater(taken)
	}
	return false, fmt.Errorf("writing Lease %s: %w", lease.Name, err)
}

// free reports whether the permit of a Lease may be acquired: it has no holder, the same victim
// holds it, or it has expired.
func (b *Semaphore) free(lease *coordinationv1.Lease, r *Request) bool {
	holder := holderOf(lease)
	return holder == "" || holder == b.identity(r.Pod.UID) || b.expired(lease.Name, lease.ResourceVersion, durationOf(lease))
}

// write makes a Lease, or changes it in the version that was read and in no other: that is
// what keeps a permit from having two holders.
func (b *Semaphore) write(ctx context.Context, lease *coordinationv1.Lease, dryRun bool) (*coordinationv1.Lease, error) {
	var mode []string
	if dryRun {
		mode = []string{metav1.DryRunAll}
	}
	if lease.ResourceVersion == "" {
		return b.options.Leases.Create(ctx, lease, metav1.CreateOptions{DryRun: mode})
	}
	return b.options.Leases.Update(ctx, lease, metav1.UpdateOptions{DryRun: mode})
}
