package agent

import (
	"time"

	"github.com/evictd/evictd/internal/cooldown"
	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/incident"
	"github.com/evictd/evictd/internal/inflight"
)

// State is all that is kept for the next process, see docs/adr/0014. The zero value knows of nothing, which
// is not the same as that nothing is known.
type State struct {
	// Incidents are those that are open, the oldest first.
	Incidents []incident.Incident `json:"incidents,omitempty"`
	// InFlight are the victims, those among them whose request is about to be sent or was not answered.
	InFlight inflight.State `json:"inFlight,omitzero"`
	// Cooldown is which pods may not be evicted for now.
	Cooldown cooldown.State `json:"cooldown,omitzero"`
}

// export returns what is remembered. It shares nothing that is changed.
func (a *Agent) export() State {
	return State{Incidents: a.incidents.Open(), InFlight: a.victims.Export(), Cooldown: a.cooldown.Export()}
}

// restore puts back what a process before knew, before the first tick. Nil says that nothing is
// known of the time before the start: a victim of then may be in flight.
func (a *Agent) restore(s *State, now time.Time) {
	if s == nil {
		s = &State{InFlight: inflight.State{Unknown: now}}
	}
	a.cooldown.Restore(s.Cooldown, now)
	a.incidents.Restore(s.Incidents, now)
	for _, r := range a.victims.Restore(s.InFlight, now) { // it counts as if it was carried out
		a.cooldown.Accept(r.Attempt.Entry.Pod.OwnerUID, false, r.Attempt.Result.Sent)
		a.changed = true // the next start finds that something is waited for, and not the request
	}
}

// keepChanged ends a tick, and comes before a plan: it hands over what is known where something of it has
// changed. While a plan is carried out [Agent.beforeSend] alone does.
func (a *Agent) keepChanged() {
	if a.changed && a.planned == nil {
		a.changed = false
		a.options.Save(a.export())
	}
}

// beforeSend hands a request over that is about to be sent, with what was known when its plan began, and
// waits until that is kept: if the process ends before its answer, the next one reads its pod before any
// other is evicted. It is called on the executor's goroutine.
func (a *Agent) beforeSend(open *decide.InDoubt) {
	known := a.known
	known.InFlight = known.InFlight.With(open)
	a.options.Save(known)()
}
