package incident

import (
	"time"

	"github.com/evictd/evictd/internal/restored"
	"github.com/evictd/evictd/pkg/pressure"
)

// restoredFor is how long after the last shortage that was written an incident is restored. A
// shortage in which nothing changes is not written again while it lasts.
const restoredFor = 24 * time.Hour

// State is an open incident that a restart must not forget, until it expires.
type State struct {
	Incident Incident  `json:"incident"`
	Expires  time.Time `json:"expires"`
}

// Export returns the open incidents, the oldest first.
func (t *Tracker) Export() []State {
	kept := make([]State, 0, len(t.open))
	for _, i := range t.open {
		kept = append(kept, State{Incident: i.clone(), Expires: i.Short.Add(restoredFor)})
	}
	return kept
}

// Restore opens the incidents that were open before a restart and have not expired; the first
// sample closes what is over. Of several of one resource, or of one signal whose device is not
// known, the first counts. What is open already stays. A time in the future counts as now.
func (t *Tracker) Restore(kept []State, now time.Time) {
	for n := range kept {
		i := kept[n].Incident.clone()
		expired := !now.Before(kept[n].Expires) || int(i.Signal) >= pressure.SignalCount
		if expired || t.of(i.Signal, pressure.Observation{Device: i.Resource.Device}) != nil {
			continue
		}
		i.Began, i.Short = restored.Time(i.Began, now, 0), restored.Time(i.Short, now, 0)
		i.HardSince = restored.Time(i.HardSince, now, 0)
		t.open = append(t.open, &i)
	}
}
