package agent

import (
	"time"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/indoubt"
	"github.com/evictd/evictd/internal/state"
)

// saveBefore hands over a request that is about to be sent. It is called on the executor's
// goroutine.
func (a *Agent) saveBefore(open *decide.InDoubt) {
	r := indoubt.RequestOf(open, open.First)
	a.memory.BeforeSend(&r)
}

// export returns what the loop knows as plain values.
func (a *Agent) export() state.State {
	return state.State{
		Incidents: a.incidents.Export(),
		InFlight:  a.victims.Export(), Cooldown: a.cooldown.Export(),
		InDoubt: a.victims.InDoubt.Export(),
	}
}

// restore puts back what a process before has known, before the first tick.
func (a *Agent) restore(s *state.State, now time.Time) {
	a.victims.Restore(s.InFlight, now)
	a.cooldown.Restore(s.Cooldown, now)
	a.incidents.Restore(s.Incidents, now)
	for _, open := range a.incidents.Open() {
		for _, v := range open.Victims {
			if v.DryRun && !a.victims.Booked(v.UID) {
				a.victims.Simulated().Restore(v.UID)
			}
		}
	}
	for _, r := range a.victims.InDoubt.Restore(s.InDoubt, now) {
		a.cooldown.Count(r.OwnerUID, r.Sent)
		a.victims.AwaitSpace(r.Gone, now)
		a.memory.Changed(true) // the next start finds when it was waited for, and not the request
	}
}
