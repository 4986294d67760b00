package cooldown

import (
	"testing"
	"time"

	"github.com/evictd/evictd/internal/config"
)

// nodeLimit and ownerLimit return one sentence when a limit is reached.
func nodeLimit(t *Tracker, now time.Time) string {
	w, _ := t.Node(now)
	return w.Detail
}

func ownerLimit(t *Tracker, owner string, now time.Time) string {
	w, _ := t.Owner(owner, now)
	return w.Detail
}

func TestLimits(t *testing.T) {
	t.Parallel()
	l := New(config.Limits{EvictionsPerMinute: 2, PerOwnerPerHour: 3}, noJitter)
	l.Accept("web", false, at(0))
	if reached := nodeLimit(l, at(time.Second)); reached != "" {
		t.Errorf("one of two: %s", reached)
	}
	l.Accept("web", false, at(time.Second))
	if nodeLimit(l, at(2*time.Second)) == "" {
		t.Error("two of two in a minute, and a third may go")
	}
	if reached := nodeLimit(l, at(61*time.Second)); reached != "" {
		t.Errorf("a minute later: %s", reached)
	}
	l.Accept("web", false, at(2*time.Minute))
	if ownerLimit(l, "web", at(3*time.Minute)) == "" {
		t.Error("three of three in an hour, and a fourth may go")
	}
	if ownerLimit(l, "db", at(3*time.Minute)) != "" || ownerLimit(l, "", at(3*time.Minute)) != "" {
		t.Error("another owner is held back")
	}
	if ownerLimit(l, "web", at(time.Hour)) != "" {
		t.Error("an hour after the first the owner is still held back")
	}
}

func TestLimitsForgetDryRuns(t *testing.T) {
	t.Parallel()
	l := New(config.Limits{EvictionsPerMinute: 2, PerOwnerPerHour: 2}, noJitter)
	l.Accept("web", true, at(0))
	l.Accept("web", false, at(0))
	if nodeLimit(l, at(1)) == "" || ownerLimit(l, "web", at(1)) == "" {
		t.Error("a dry run does not count while it lasts")
	}
	l.Adopt(l.limits, false)
	if reached := nodeLimit(l, at(1)); reached != "" || ownerLimit(l, "web", at(1)) != "" {
		t.Errorf("a dry run still counts after it: %s", reached)
	}
	l.Accept("web", false, at(1))
	if nodeLimit(l, at(2)) == "" || ownerLimit(l, "web", at(2)) == "" {
		t.Error("what was done for real was forgotten too")
	}
}
