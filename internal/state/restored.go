package state

import "time"

// Restored returns a time of a state file with a monotonic reading: from now on a wall clock that is set
// back or forward changes nothing. It is in the future by ahead at most: a clock that was set back
// before the start must make nothing last longer. The zero time stays.
func Restored(at, now time.Time, ahead time.Duration) time.Time {
	if at.IsZero() {
		return at
	}
	return now.Add(min(at.Sub(now), ahead))
}
