package inflight_test

import (
	"testing"
	"time"

	"github.com/evictd/evictd/internal/inflight"
	"github.com/evictd/evictd/internal/nodepods"
	"github.com/evictd/evictd/pkg/pressure"
)

// A cgroup that no listed pod has is relied on from when it was first seen, and after that time
// never again, however often it is seen.
func TestUnlistedPodIsReliedOnForABoundedTime(t *testing.T) {
	t.Parallel()
	tracker := inflight.New()
	for _, offset := range []time.Duration{0, 10 * time.Second, time.Hour} {
		tracker.ObserveUnlisted([]string{"a"}, nobody, at(offset))
	}
	for _, test := range []struct {
		now    time.Duration
		counts bool
	}{{0, true}, {inflight.UnlistedFor, true}, {inflight.UnlistedFor + 1, false}, {time.Hour, false}} {
		b, counts := tracker.Unlisted("a", pressure.Amounts{}, at(test.now))
		if counts != test.counts || !b.Accepted.Equal(at(0)) {
			t.Errorf("after %v it counts %v, since %v; want %v since it was first seen", test.now, counts, b.Accepted, test.counts)
		}
	}
	tracker.Observe(at(2*time.Hour), nobody, everyone)
	if b, _ := tracker.Unlisted("a", pressure.Amounts{}, at(2*time.Hour)); !b.Accepted.IsZero() {
		t.Error("it is remembered although its cgroup has gone")
	}
}

func TestPodEndsSinceItWasFirstSeenToEnd(t *testing.T) {
	t.Parallel()
	tracker, ends := inflight.New(), []*nodepods.Pod{{UID: "a", Terminating: true}, {UID: "b", Finished: true}, {UID: "stays"}}
	tracker.ObserveEnding(ends, at(0))
	tracker.ObserveEnding(ends, at(time.Minute))
	for uid, want := range map[string]time.Time{"a": at(0), "b": at(0), "stays": at(time.Hour)} {
		if got := tracker.EndingSince(uid, at(time.Hour)); !got.Equal(want) {
			t.Errorf("%s ends since %v, want %v", uid, got, want)
		}
	}
	tracker.ObserveEnding(nil, at(2*time.Minute))
	if got := tracker.EndingSince("a", at(time.Hour)); !got.Equal(at(time.Hour)) {
		t.Errorf("a pod that is not listed any more ends since %v", got)
	}
}
