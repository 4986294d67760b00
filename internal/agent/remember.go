package agent

import (
	"slices"
	"sync"
	"time"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/indoubt"
	"github.com/evictd/evictd/internal/inflight"
	"github.com/evictd/evictd/internal/state"
)

// A process that is killed under pressure, or just after it, must not evict a second pod for
// the same deficit, nor begin with fresh limits. So what the loop remembers is handed to a
// Memory: before a request is sent, after each report, when a victim has ended or one was
// found that others end. A calm node hands over nothing, and neither does a tick under
// pressure that changed nothing.

// Memory keeps what must survive a restart of the container.
type Memory interface {
	// Save keeps a state in place of the one before. It does not wait.
	Save(s state.State)
	// SaveNow is Save, and waits until the state is kept, for a bounded moment.
	SaveNow(s state.State)
}

// memory joins what the loop knows with the request that an eviction's goroutine is about to
// send. The zero value keeps nothing.
type memory struct {
	to Memory // nil keeps nothing

	mu    sync.Mutex
	known state.State
	// sending is the request that is under way; nil when there is none.
	sending *state.Request
}

// learn takes what the loop knows, and returns it with the request that is under way.
func (m *memory) learn(known state.State) state.State {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.known = known
	return m.joined()
}

// begin notes a request that is about to be sent.
func (m *memory) begin(r *state.Request) state.State {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sending = r
	return m.joined()
}

// end forgets the request that was under way: what became of it is the loop's to know.
func (m *memory) end() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sending = nil
}

func (m *memory) joined() state.State {
	joined := m.known
	if m.sending != nil {
		others := slices.DeleteFunc(slices.Clone(joined.InDoubt), func(r state.Request) bool { return r.Shortage.Resource == m.sending.Shortage.Resource })
		joined.InDoubt = append(others, *m.sending)
	}
	return joined
}

// save hands over what the loop knows, now.
func (a *Agent) save() {
	a.changed, a.inFlight = false, a.victims.Len()
	if a.memory.to != nil {
		a.memory.to.Save(a.memory.learn(a.export()))
	}
}

// learn notes what the loop knows for the request that is sent next: it is handed over with it.
func (a *Agent) learn() {
	if a.memory.to != nil {
		a.memory.learn(a.export())
	}
}

// saveReport hands over what the loop knows after a plan was carried out, or its request was
// settled: nothing is under way any more.
func (a *Agent) saveReport() {
	a.memory.end()
	a.save()
}

// saveChanges hands over what the loop knows where something of it has changed in this tick.
func (a *Agent) saveChanges(ended []inflight.Booking) {
	if a.changed || len(ended) > 0 || a.victims.Len() != a.inFlight {
		a.save()
	}
}

// saveAtTheEnd waits until what the loop knows is kept: the process ends.
func (a *Agent) saveAtTheEnd() {
	if a.memory.to != nil {
		a.memory.to.SaveNow(a.memory.learn(a.export()))
	}
}

// saveBefore hands over a request that is about to be sent: if nothing is ever heard of it
// again, its pod is read before any other pod is evicted. It is called on the executor's goroutine.
func (a *Agent) saveBefore(open *decide.InDoubt) {
	if a.memory.to == nil {
		return
	}
	r := indoubt.RequestOf(open, open.First)
	a.memory.to.SaveNow(a.memory.begin(&r))
}

// export returns what the loop knows as plain values.
func (a *Agent) export() state.State {
	return state.State{
		Incidents: a.incidents.Export(),
		InFlight:  a.victims.Export(), Cooldown: a.cooldown.Export(),
		InDoubt: a.inDoubt.Export(),
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
	for _, r := range a.inDoubt.Restore(s.InDoubt, now) {
		a.cooldown.Count(r.OwnerUID, r.Sent)
		a.victims.AwaitSpace(r.Gone, now)
		a.changed = true // the next start finds when it was waited for, and not the request
	}
}
