package memories

import (
	"time"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/indoubt"
	"github.com/evictd/evictd/internal/state"
)

// Restore puts back what a process before knew, before the first tick. Nil says that nothing is
// known of the time before the start: a victim of then may be in flight.
func (m *Memories) Restore(s *state.State, now time.Time) {
	if s == nil {
		m.Victims.StartUnknown(now)
		return
	}
	m.Victims.Restore(s.InFlight, now)
	m.Cooldown.Restore(s.Cooldown, now)
	m.Incidents.Restore(s.Incidents, now)
	for _, open := range m.Incidents.Open() {
		for _, v := range open.Victims {
			if v.DryRun && !m.Victims.Booked(v.UID) {
				m.Victims.Simulated().Restore(v.UID)
			}
		}
	}
	for _, r := range m.Victims.InDoubt.Restore(s.InDoubt, now) {
		m.Cooldown.Count(r.OwnerUID, r.Sent)
		m.Victims.AwaitSpace(r.Gone, now)
		m.keeper.Changed(true) // the next start finds when it was waited for, and not the request
	}
}

// Restored takes what is known at the start for what is kept already.
func (m *Memories) Restored() { m.keeper.Restored() }

// BeforeSend keeps a request that is about to be sent, and waits until that is done. It may be
// called on any goroutine.
func (m *Memories) BeforeSend(open *decide.InDoubt) {
	r := indoubt.RequestOf(open, open.First)
	m.keeper.BeforeSend(&r)
}

// export returns what is remembered as plain values.
func (m *Memories) export() state.State {
	return state.State{
		Incidents: m.Incidents.Export(),
		InFlight:  m.Victims.Export(), Cooldown: m.Cooldown.Export(),
		InDoubt: m.Victims.InDoubt.Export(),
	}
}
