package agent

import (
	"slices"
	"sync"
	"time"

	"github.com/evictd/evictd/internal/cooldown"
	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/incident"
	"github.com/evictd/evictd/internal/inflight"
)

// State is all that is kept for the next process. The zero value knows of nothing, which is not the
// same as that nothing is known.
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
		a.victims.StartUnknown(now)
		return
	}
	a.cooldown.Restore(s.Cooldown, now)
	a.incidents.Restore(s.Incidents, now)
	for _, r := range a.victims.Restore(s.InFlight, now) { // it counts as if it was carried out
		a.cooldown.Accept(r.Attempt.Entry.Pod.OwnerUID, false, r.Attempt.Result.Sent)
		a.keeper.note(true) // the next start finds when it was waited for, and not the request
	}
}

// keeper hands the state to a [Memory] when it should: before a request is sent, after each report, at
// the end, and after a tick that changed something. See docs/adr/0014. Only beforeSend may be called
// from another goroutine than the loop's.
type keeper struct {
	to      Memory       // nil keeps nothing
	export  func() State // called on the loop's goroutine alone
	changed bool         // something was changed since the state was handed over

	mu      sync.Mutex // guards all below, and hands states over in the order in which they were joined
	known   State
	sending *decide.InDoubt // the request that is under way; nil where there is none
}

// note notes whether something of the state was changed.
func (k *keeper) note(changed bool) { k.changed = k.changed || changed }

// saveChanged is save where something of the state was changed since.
func (k *keeper) saveChanged() {
	if k.changed {
		k.save()
	}
}

// learn takes what is known now for the next request: it is handed over together with it.
func (k *keeper) learn() {
	if k.to == nil {
		return
	}
	known := k.export()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.known = known
}

// save hands over what is known now. What it returns waits until that is kept.
func (k *keeper) save() (kept func()) {
	k.changed = false
	k.learn()
	return k.handOver(func() {})
}

// beforeSend hands a request over that is about to be sent, with what was known last, and waits until
// that is kept: if the process ends before its answer, the next one reads its pod before any other is
// evicted.
func (k *keeper) beforeSend(open *decide.InDoubt) { k.handOver(func() { k.sending = open })() }

// answered hands over what is known after a plan was carried out, or its request was settled:
// nothing is under way any more, and what became of the request is part of the state.
func (k *keeper) answered() {
	k.changed = false
	k.learn()
	k.handOver(func() { k.sending = nil })
}

// handOver hands over what is known, after a change, with the request that is under way in place of one
// in doubt about the same resource.
func (k *keeper) handOver(change func()) (kept func()) {
	if k.to == nil {
		return func() {}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	change()
	joined := k.known
	if k.sending != nil {
		others := slices.DeleteFunc(slices.Clone(joined.InFlight.Victims), func(v decide.Victim) bool {
			return v.Phase == decide.Requested && decide.ResourceOf(&v.Request.Pressure) == decide.ResourceOf(&k.sending.Pressure)
		})
		joined.InFlight.Victims = append(others, *k.sending.Victim())
	}
	return k.to.Save(joined)
}
