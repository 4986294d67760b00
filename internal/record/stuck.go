package record

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"

	"github.com/evictd/evictd/internal/decide"
)

// Ledger records the pods that are in flight now, and reports once for each victim that it is
// stuck.
func (r *Recorder) Ledger(now time.Time, bookings []decide.Victim) {
	r.mu.Lock()
	defer r.mu.Unlock()
	stuck := 0
	for i := range bookings {
		b := &bookings[i]
		if !b.Stuck(now) {
			continue
		}
		stuck++
		if !r.stuck[b.UID] {
			r.stuck[b.UID] = true
			r.sayStuck(b)
		}
	}
	if len(r.stuck) > stuck {
		maps.DeleteFunc(r.stuck, func(uid string, _ bool) bool {
			return !slices.ContainsFunc(bookings, func(b decide.Victim) bool { return b.UID == uid && b.Stuck(now) })
		})
	}
	r.metrics.inFlight.Set(float64(len(bookings)))
	r.metrics.stuck.Set(float64(stuck))
}

// sayStuck logs that a victim has not ended, whether or not evictd evicted it, and writes an Event
// on a pod that evictd evicted.
func (r *Recorder) sayStuck(b *decide.Victim) {
	r.logger.Warn(messageStuck, zap.String(keyVictim, b.Key()), zap.String(keyUID, b.UID),
		zap.Time(keyAccepted, b.Accepted.UTC()), zap.Time(keyDeadline, b.Deadline.UTC()))
	if b.Signal == "" || b.Unlisted {
		return
	}
	r.events.Event(podReference(b.Namespace, b.Name, b.UID), corev1.EventTypeWarning, ReasonStuck, fmt.Sprintf(
		"evictd evicted this pod for %s, it should have ended by %s and has not: evictd does not rely on its end any more. "+
			"Look for finalizers, volumes that do not unmount, or a container runtime that hangs.",
		b.Signal, b.Deadline.UTC().Format(time.RFC3339)))
}
