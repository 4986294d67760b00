package cooldown

import (
	"testing"
	"time"
)

func TestLimits(t *testing.T) {
	t.Parallel()
	limiter := NewLimiter(Limits{PerMinute: 2, PerOwnerPerHour: 3})
	limiter.Count("web", false, at(0))
	if reached := limiter.Node(at(time.Second)); reached != "" {
		t.Errorf("one of two: %s", reached)
	}
	limiter.Count("web", false, at(time.Second))
	if limiter.Node(at(2*time.Second)) == "" {
		t.Error("two of two in a minute, and a third may go")
	}
	if reached := limiter.Node(at(61 * time.Second)); reached != "" {
		t.Errorf("a minute later: %s", reached)
	}
	limiter.Count("web", false, at(2*time.Minute))
	if limiter.Owner("web", at(3*time.Minute)) == "" {
		t.Error("three of three in an hour, and a fourth may go")
	}
	if limiter.Owner("db", at(3*time.Minute)) != "" || limiter.Owner("", at(3*time.Minute)) != "" {
		t.Error("another owner is held back")
	}
	if limiter.Owner("web", at(time.Hour)) != "" {
		t.Error("an hour after the first the owner is still held back")
	}
}

func TestLimitsForgetDryRuns(t *testing.T) {
	t.Parallel()
	limiter := NewLimiter(Limits{PerMinute: 2, PerOwnerPerHour: 2})
	limiter.Count("web", true, at(0))
	limiter.Count("web", false, at(0))
	if limiter.Node(at(1)) == "" || limiter.Owner("web", at(1)) == "" {
		t.Error("a dry run does not count while it lasts")
	}
	limiter.ForgetDryRuns()
	if reached := limiter.Node(at(1)); reached != "" || limiter.Owner("web", at(1)) != "" {
		t.Errorf("a dry run still counts after it: %s", reached)
	}
	limiter.Count("web", false, at(1))
	if limiter.Node(at(2)) == "" || limiter.Owner("web", at(2)) == "" {
		t.Error("what was done in earnest was forgotten too")
	}
}

func TestLeaveOne(t *testing.T) {
	t.Parallel()
	for _, limit := range []int{0, 1, 6} {
		l := NewLimiter(Limits{PerMinute: limit})
		l.LeaveOne(at(0))
		if l.Node(at(0)) != "" {
			t.Errorf("limit %d: none is left", limit)
		}
		l.Count("owner", false, at(0))
		if reached := l.Node(at(time.Second)) != ""; reached != (limit > 0) {
			t.Errorf("limit %d: reached after one more is %v", limit, reached)
		}
		if l.Node(at(time.Minute)) != "" {
			t.Errorf("limit %d: reached after a minute", limit)
		}
	}
}

// A limit so high that it is none was counted up to, one entry each: with 2147483647 a careful
// start under pressure took all of the container's memory.
func TestFaultCarefulStartCountsUpToAHighLimit(t *testing.T) {
	t.Parallel()
	const limit = 1 << 20
	l := NewLimiter(Limits{PerMinute: limit})
	l.LeaveOne(at(0))
	if kept := l.Export(); len(kept) != 1 || kept[0].Count != limit-1 {
		t.Errorf("%d entries, want one that counts as %d", len(kept), limit-1)
	}
	next := NewLimiter(Limits{PerMinute: limit})
	next.Restore(l.Export(), at(time.Second))
	if next.Node(at(time.Second)) != "" {
		t.Error("none is left after a restart")
	}
	next.Count("owner", false, at(time.Second))
	if next.Node(at(2*time.Second)) == "" {
		t.Error("more than one is left after a restart")
	}
}
