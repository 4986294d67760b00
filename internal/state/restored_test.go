package state

import (
	"strings"
	"testing"
	"time"
)

// The wall clock of a test cannot be set: that it does not count is that both times have a monotonic
// reading, by which package time compares then.
func TestTime(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for _, test := range []struct{ at, ahead, want time.Duration }{
		{-time.Hour, 0, -time.Hour},
		{time.Hour, 0, 0},
		{time.Hour, time.Minute, time.Minute},
		{time.Second, time.Minute, time.Second},
	} {
		read := now.Add(test.at).Round(0) // as from a file
		got := Restored(read, now, test.ahead)
		if got.Sub(now) != test.want || !strings.Contains(got.String(), " m=") {
			t.Errorf("%v, at most %v ahead: %v, want %v from now with a monotonic reading", test.at, test.ahead, got, test.want)
		}
	}
	if !Restored(time.Time{}, now, 0).IsZero() {
		t.Error("the zero time became another")
	}
}
