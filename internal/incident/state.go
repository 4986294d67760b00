package incident

import (
	"time"

	"github.com/evictd/evictd/internal/state"
	"github.com/evictd/evictd/pkg/pressure"
)

// restoredFor is how long after the last shortage that was written an incident is restored. A
// shortage in which nothing changes is not written again while it lasts.
const restoredFor = 24 * time.Hour

// Restore opens the incidents that were open before a restart and have not expired; the first
// sample closes what is over. Of several of one resource, or of one signal whose device is not
// known, the first counts. What is open already stays. A time in the future counts as now.
func (t *Tracker) Restore(kept []Incident, now time.Time) {
	for n := range kept {
		i := kept[n].clone()
		expired := now.Sub(i.Short) >= restoredFor || int(i.Signal) >= pressure.SignalCount
		if expired || t.of(i.Signal, pressure.Observation{Device: i.Resource.Device}) != nil {
			continue
		}
		i.Began, i.Short = state.Restored(i.Began, now, 0), state.Restored(i.Short, now, 0)
		i.HardSince = state.Restored(i.HardSince, now, 0)
		t.open = append(t.open, &i)
	}
}
