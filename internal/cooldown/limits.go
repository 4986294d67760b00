package cooldown

import (
	"fmt"
	"slices"
	"time"
)

// Limits bounds how many pods may go in a time: the last guard against a wrong
// threshold or a workload that always comes back.
type Limits struct {
	// PerMinute is the most evictions on the node in any minute; 0 means no limit.
	PerMinute int
	// PerOwnerPerHour is the most evictions of one owner's pods on the node in any
	// hour; 0 means no limit.
	PerOwnerPerHour int
}

// accepted is an eviction that counts against the limits, or so many at once.
type accepted struct {
	owner  string
	at     time.Time
	count  int
	dryRun bool
}

// Limiter counts accepted evictions against Limits. It is not safe for concurrent
// use.
type Limiter struct {
	limits Limits
	recent []accepted // within the last hour, oldest first
}

// NewLimiter returns a limiter that has counted nothing.
func NewLimiter(limits Limits) *Limiter { return &Limiter{limits: limits} }

// SetLimits changes the limits and keeps what was counted.
func (l *Limiter) SetLimits(limits Limits) { l.limits = limits }

// Count notes an accepted eviction of a pod of the owner (its UID; "" for a bare
// pod), or a simulated one.
func (l *Limiter) Count(owner string, dryRun bool, now time.Time) {
	l.recent = slices.DeleteFunc(l.recent, func(a accepted) bool { return now.Sub(a.at) >= time.Hour })
	l.recent = append(l.recent, accepted{owner: owner, at: now, count: 1, dryRun: dryRun})
}

// ForgetDryRuns drops what dry runs counted: once evictd acts in earnest, nobody
// has gone through them.
func (l *Limiter) ForgetDryRuns() {
	l.recent = slices.DeleteFunc(l.recent, func(a accepted) bool { return a.dryRun })
}

// Node returns one sentence when the node's limit is reached, "" when one more
// may go.
func (l *Limiter) Node(now time.Time) string {
	n := l.lastMinute(now)
	if l.limits.PerMinute > 0 && n >= l.limits.PerMinute {
		return fmt.Sprintf("%d evictions in the last minute, limits.evictionsPerMinute is %d", n, l.limits.PerMinute)
	}
	return ""
}

func (l *Limiter) lastMinute(now time.Time) int {
	n := 0
	for _, a := range l.recent {
		if now.Sub(a.at) < time.Minute {
			n += a.count
		}
	}
	return n
}

// Owner returns one sentence when the owner's limit is reached, "" when one more of its
// pods may go. Pods without an owner are counted by the node's limit alone.
func (l *Limiter) Owner(owner string, now time.Time) string {
	if owner == "" || l.limits.PerOwnerPerHour == 0 {
		return ""
	}
	n := 0
	for _, a := range l.recent {
		if a.owner == owner && now.Sub(a.at) < time.Hour {
			n += a.count
		}
	}
	if n < l.limits.PerOwnerPerHour {
		return ""
	}
	return fmt.Sprintf("%d of its owner's pods went in the last hour, limits.perOwnerPerHour is %d", n, l.limits.PerOwnerPerHour)
}
