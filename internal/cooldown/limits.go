package cooldown

import (
	"slices"
	"time"

	"github.com/evictd/evictd/internal/config"
	"github.com/evictd/evictd/internal/decide"
)

// Accepted is an eviction that counts against the limits for an hour.
type Accepted struct {
	// Owner is the UID of the pod's controller; "" for a bare pod.
	Owner string `json:"owner,omitempty"`
	// At is when it was accepted.
	At time.Time `json:"at"`
	// DryRun says that nothing happened to the pod.
	DryRun bool `json:"dryRun,omitempty"`
}

// Adopt takes other limits, of which 0 is none. What was counted stays, but for what dry runs counted once evictd
// evicts for real: nothing happened to their pods.
func (t *Tracker) Adopt(limits config.Limits, dryRun bool) {
	t.limits = limits
	t.known.Accepted = slices.DeleteFunc(t.known.Accepted, func(a Accepted) bool { return a.DryRun && !dryRun })
}

// Accept counts an accepted eviction of a pod of the owner, or a simulated one.
func (t *Tracker) Accept(owner string, dryRun bool, now time.Time) {
	counted := slices.DeleteFunc(t.known.Accepted, func(a Accepted) bool { return now.Sub(a.At) >= time.Hour })
	t.known.Accepted = append(counted, Accepted{Owner: owner, At: now, DryRun: dryRun})
	slices.SortStableFunc(t.known.Accepted, func(a, b Accepted) int { return a.At.Compare(b.At) })
}

// Node returns why no pod of the node may be evicted for now: the limit a minute.
func (t *Tracker) Node(now time.Time) (decide.Wait, bool) {
	n, until := t.within(time.Minute, t.limits.EvictionsPerMinute, now, func(*Accepted) bool { return true })
	return waits(until, now, "%d evictions in the last minute, limits.evictionsPerMinute is %d", n, t.limits.EvictionsPerMinute)
}

// Owner returns why no pod of an owner, by the UID of the controller, may be evicted for now: the limit
// an hour. Pods without an owner are counted by the node's limit alone.
func (t *Tracker) Owner(owner string, now time.Time) (decide.Wait, bool) {
	if owner == "" {
		return decide.Wait{}, false
	}
	n, until := t.within(time.Hour, t.limits.PerOwnerPerHour, now, func(a *Accepted) bool { return a.Owner == owner })
	return waits(until, now, "%d of its owner's pods went in the last hour, limits.perOwnerPerHour is %d", n, t.limits.PerOwnerPerHour)
}

// within returns how many of the evictions are younger than the window, and until when they
// are as many as the limit; the zero time when they are not, or the limit is 0.
func (t *Tracker) within(window time.Duration, limit int32, now time.Time, counts func(*Accepted) bool) (n int, until time.Time) {
	for _, a := range slices.Backward(t.known.Accepted) {
		if now.Sub(a.At) >= window {
			break
		}
		if !counts(&a) {
			continue
		}
		if n++; limit > 0 && n >= int(limit) && until.IsZero() {
			until = a.At.Add(window)
		}
	}
	return n, until
}
