package inflight

import (
	"testing"
	"time"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/pkg/pressure"
)

// What others end counts from the moment the threshold was met, and once more from the end of
// evictd's last victim; a pod of another end does not move it.
func TestOneClockForWhatOthersEnd(t *testing.T) {
	t.Parallel()
	tracker := on(&node{})
	until := func(want time.Time) {
		t.Helper()
		if got := tracker.OthersUntil(at(time.Hour)); !got.Equal(want) {
			t.Errorf("until %v, want %v", got, want)
		}
	}
	until(at(time.Hour + decide.HardPatience))
	tracker.Accept(victim("others", 100))
	endGone(tracker, at(2*time.Hour), never)
	until(at(time.Hour + decide.HardPatience))
	tracker.Accept(own("own", 100))
	endGone(tracker, at(3*time.Hour), never)
	until(at(3*time.Hour + decide.HardPatience))
}

// A pod that others end is relied on to the end of the clock, or to its deadline where that is
// sooner; evictd's own as before.
func TestVictimsAsAPressureSeesThem(t *testing.T) {
	t.Parallel()
	tracker := on(&node{})
	long, brief, mine := victim("long", 1), victim("brief", 1), own("own", 1)
	long.Deadline, mine.Deadline = at(time.Hour), at(time.Hour)
	for _, v := range []decide.Victim{long, brief, mine} {
		tracker.Accept(v)
	}
	s := situation(pressure.MemoryAvailable, at(0), nil)
	s.Met = at(-time.Second)
	want := map[string]time.Time{"long": at(decide.HardPatience - time.Second), "brief": brief.Deadline, "own": at(time.Hour)}
	for _, v := range tracker.inFlight(s) {
		if !v.Deadline.Equal(want[v.UID]) {
			t.Errorf("%s counts until %v, want %v", v.UID, v.Deadline, want[v.UID])
		}
		if v.Signal == "" && !v.ReliedOn(short(pressure.MemoryAvailable, v.Deadline, true)) {
			t.Errorf("%s is not relied on to its deadline", v.UID)
		}
	}
}
