package inflight_test

import (
	"testing"
	"time"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/inflight"
	"github.com/evictd/evictd/pkg/pressure"
)

// What others end counts from the moment the threshold was met, and once more from the end of
// evictd's last victim; a pod of another end does not move it.
func TestOneClockForWhatOthersEnd(t *testing.T) {
	t.Parallel()
	tracker, p := inflight.New(), pressure.Pressure{Since: at(time.Hour)}
	until := func(want time.Time) {
		t.Helper()
		if got := tracker.OthersUntil(p.Since); !got.Equal(want) {
			t.Errorf("until %v, want %v", got, want)
		}
	}
	until(at(time.Hour + decide.HardPatience))
	tracker.Book(victim("others", 100))
	tracker.Observe(at(2*time.Hour), never)
	until(at(time.Hour + decide.HardPatience))
	own := victim("own", 100)
	own.Signal = "memory.available"
	tracker.Book(own)
	tracker.Observe(at(3*time.Hour), never)
	until(at(3*time.Hour + decide.HardPatience))
}

// A pod that others end is relied on to the end of the clock, or to its deadline where that is
// sooner; evictd's own as before.
func TestBookingsAsAPressureSeesThem(t *testing.T) {
	t.Parallel()
	tracker := inflight.New()
	long, short, own := victim("long", 1), victim("short", 1), victim("own", 1)
	long.Deadline, own.Deadline, own.Signal = at(time.Hour), at(time.Hour), "memory.available"
	for _, b := range []decide.Victim{long, short, own} {
		tracker.Book(b)
	}
	p := pressure.Pressure{Since: at(-time.Second)}
	want := map[string]time.Time{"long": at(decide.HardPatience - time.Second), "short": short.Deadline, "own": at(time.Hour)}
	for _, b := range tracker.For(&p, p.Since, func(*pressure.Pressure, time.Duration) bool { return false }) {
		if !b.Deadline.Equal(want[b.UID]) {
			t.Errorf("%s counts until %v, want %v", b.UID, b.Deadline, want[b.UID])
		}
		if b.Signal == "" && !b.ReliedOn(b.Deadline, time.Second) {
			t.Errorf("%s is not relied on to its deadline", b.UID)
		}
	}
}
