package cooldown

import (
	"fmt"
	"slices"
	"time"
)

// Limits bounds how many pods may be evicted in a time: the last guard against a wrong
// threshold or a workload that always comes back.
type Limits struct {
	// PerMinute is the most evictions on the node in any minute; 0 means no limit.
	PerMinute int
	// PerOwnerPerHour is the most evictions of one owner's pods on the node in any
	// hour; 0 means no limit.
	PerOwnerPerHour int
	// SoftJitter is the longest that the first soft eviction of an incident waits at
	// random; 0 is off. See docs/adr/0021-soft-jitter.md.
	SoftJitter time.Duration
}

// accepted is an eviction that counts against the limits.
type accepted struct {
	owner  string
	at     time.Time
	dryRun bool
}

// limiter counts accepted evictions against Limits.
type limiter struct {
	limits Limits
	recent []accepted // within the last hour, oldest first
}

func newLimiter(limits Limits) *limiter { return &limiter{limits: limits} }

// count notes an accepted eviction of a pod of the owner (its UID; "" for a bare
// pod), or a simulated one.
func (l *limiter) count(owner string, dryRun bool, now time.Time) {
	l.recent = slices.DeleteFunc(l.recent, func(a accepted) bool { return now.Sub(a.at) >= time.Hour })
	l.recent = append(l.recent, accepted{owner: owner, at: now, dryRun: dryRun})
	l.sort()
}

func (l *limiter) sort() {
	slices.SortStableFunc(l.recent, func(a, b accepted) int { return a.at.Compare(b.at) })
}

func (l *limiter) forgetDryRuns() {
	l.recent = slices.DeleteFunc(l.recent, func(a accepted) bool { return a.dryRun })
}

// node returns why no pod of the node may be evicted for now.
func (l *limiter) node(now time.Time) (Reason, bool) {
	n, until := l.within(time.Minute, l.limits.PerMinute, now, anyOwner)
	if until.IsZero() {
		return Reason{}, false
	}
	return Reason{Kind: LimitReached, Until: until, Detail: fmt.Sprintf(
		"%d evictions in the last minute, limits.evictionsPerMinute is %d", n, l.limits.PerMinute)}, true
}

// owner returns why no pod of the owner may be evicted for now. Pods without an owner are
// counted by the node's limit alone.
func (l *limiter) owner(owner string, now time.Time) (Reason, bool) {
	if owner == "" || l.limits.PerOwnerPerHour == 0 {
		return Reason{}, false
	}
	n, until := l.within(time.Hour, l.limits.PerOwnerPerHour, now, func(a *accepted) bool { return a.owner == owner })
	if until.IsZero() {
		return Reason{}, false
	}
	return Reason{Kind: LimitReached, Until: until, Detail: fmt.Sprintf(
		"%d of its owner's pods went in the last hour, limits.perOwnerPerHour is %d", n, l.limits.PerOwnerPerHour)}, true
}

func anyOwner(*accepted) bool { return true }

// within returns how many of the evictions are younger than the window, and until when they
// are as many as the limit; the zero time when they are not, or the limit is 0.
func (l *limiter) within(window time.Duration, limit int, now time.Time, counts func(*accepted) bool) (n int, until time.Time) {
	for _, a := range slices.Backward(l.recent) {
		if now.Sub(a.at) >= window {
			break
		}
		if !counts(&a) {
			continue
		}
		if n++; limit > 0 && n >= limit && until.IsZero() {
			until = a.at.Add(window)
		}
	}
	return n, until
}
