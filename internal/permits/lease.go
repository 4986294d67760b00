package permits

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What a permit's Lease says besides its holder.
const (
	// LabelPermit marks the Leases of permits; its value stands for the pool.
	LabelPermit = "evictd.dev/permit"
	// AnnotationWorkload names the pool: the workload, "shop/Deployment/web", or "cluster".
	AnnotationWorkload = "evictd.dev/workload"
	// AnnotationVictim names the pod that is evicted, "shop/web-5d4-x".
	AnnotationVictim = "evictd.dev/victim"
)

// unsaid is how long a Lease without a duration holds its permit; evictd writes none.
const unsaid = time.Hour

// identity is the holder of a permit: the node, and the victim's UID.
func (b *Semaphore) identity(uid string) string { return b.options.Node + "/" + uid }

// fill writes the request's holder into a Lease.
func (b *Semaphore) fill(lease *coordinationv1.Lease, pool string, r *Request) {
	now := metav1.NewMicroTime(b.options.Now())
	identity, seconds := b.identity(r.Pod.UID), int32(r.Lasts/time.Second) //nolint:gosec // a year at most
	transitions := int32(0)
	if before := lease.Spec.LeaseTransitions; before != nil {
		transitions = *before + 1
	}
	lease.Labels = map[string]string{LabelPermit: hashOf(pool)}
	lease.Annotations = map[string]string{AnnotationWorkload: pool, AnnotationVictim: r.Pod.Key()}
	lease.Spec = coordinationv1.LeaseSpec{
		HolderIdentity: &identity, LeaseDurationSeconds: &seconds, LeaseTransitions: &transitions,
		AcquireTime: &now, RenewTime: &now,
	}
}

// holderOf returns the holder of the permit, "" when there is none.
func holderOf(lease *coordinationv1.Lease) string {
	if lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

// durationOf returns how long a Lease holds its permit when nothing changes about it.
func durationOf(lease *coordinationv1.Lease) time.Duration {
	if lease.Spec.LeaseDurationSeconds == nil {
		return unsaid
	}
	return time.Duration(*lease.Spec.LeaseDurationSeconds) * time.Second
}

// told names the victim of a permit and its node, for messages.
func told(lease *coordinationv1.Lease) string {
	node, _, _ := strings.Cut(holderOf(lease), "/")
	return lease.Annotations[AnnotationVictim] + " on " + node
}

// leaseName returns the name of the Lease of a pool's permit.
func leaseName(pool string, permit int) string {
	return "evictd-permit-" + hashOf(pool) + "-" + strconv.Itoa(permit)
}

// hashOf stands for a pool in names and labels, for which a workload's name may be too long, and
// it contains a slash.
func hashOf(pool string) string {
	const enough = 16 // bytes: no two pools have the same hash
	sum := sha256.Sum256([]byte(pool))
	return hex.EncodeToString(sum[:enough])
}
