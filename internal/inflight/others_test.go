package inflight

import (
	"testing"
	"time"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/pkg/pressure"
)

// What others end counts from the moment the threshold was met, and once more from the end of evictd's last victim, or
// to its deadline where that is sooner; a pod of another end does not move the clock. Evictd's own count as before.
func TestOneClockForWhatOthersEnd(t *testing.T) {
	t.Parallel()
	tracker, long, mine := on(&node{}), victim("long", 1), own("own", 1)
	long.Deadline, mine.Deadline = at(9*time.Hour), at(9*time.Hour)
	for _, v := range []decide.Victim{long, mine, victim("brief", 1), victim("ends", 1)} {
		tracker.Accept(v)
	}
	check := func(met, want time.Duration) {
		t.Helper()
		s := situation(pressure.MemoryAvailable, at(4*time.Hour), nil)
		s.Met = at(met)
		until := map[string]time.Time{"long": at(want + decide.HardPatience), "own": mine.Deadline, "brief": at(45 * time.Second), "ends": at(45 * time.Second)}
		for _, v := range tracker.inFlight(s) {
			if !v.Deadline.Equal(until[v.UID]) {
				t.Errorf("%s counts until %v, want %v", v.UID, v.Deadline, until[v.UID])
			}
		}
	}
	check(-time.Second, -time.Second)
	endGone(tracker, at(2*time.Hour), func(uid string) bool { return uid != "ends" })
	check(time.Hour, time.Hour)
	endGone(tracker, at(3*time.Hour), func(uid string) bool { return uid != "own" })
	check(time.Hour, 3*time.Hour)
}
