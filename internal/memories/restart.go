package memories

import (
	"time"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/state"
)

// Restore puts back what a process before knew, before the first tick. Nil says that nothing is
// known of the time before the start: a victim of then may be in flight.
func (m *Memories) Restore(s *state.State, now time.Time) {
	if s == nil {
		m.Victims.StartUnknown(now)
		return
	}
	givenUp := m.Victims.Restore(s.InFlight, now)
	m.Cooldown.Restore(s.Cooldown, now)
	m.Incidents.Restore(s.Incidents, now)
	for _, r := range givenUp { // it counts as if it was carried out
		m.Cooldown.Count(r.Attempt.Entry.Pod.OwnerUID, r.Attempt.Result.Sent)
		m.keeper.Changed(true) // the next start finds when it was waited for, and not the request
	}
}

// Restored takes what is known at the start for what is kept already.
func (m *Memories) Restored() { m.keeper.Restored() }

// BeforeSend keeps a request that is about to be sent, and waits until that is done. It may be
// called on any goroutine.
func (m *Memories) BeforeSend(open *decide.InDoubt) {
	m.keeper.BeforeSend(open)
}

// export returns what is remembered as plain values.
func (m *Memories) export() state.State {
	return state.State{
		Incidents: m.Incidents.Export(),
		InFlight:  m.Victims.Export(), Cooldown: m.Cooldown.Export(),
	}
}
