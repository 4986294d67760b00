package agent

import (
	"slices"
	"sync"
	"time"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/incident"
	"github.com/evictd/evictd/internal/inflight"
	"github.com/evictd/evictd/internal/state"
	"github.com/evictd/evictd/pkg/evict"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
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
	r := requestState(open)
	r.Sent, r.Expires = open.First, open.First.Add(countedFor)
	a.memory.to.SaveNow(a.memory.begin(r))
}

// incidentKept is how long after the last shortage that was written an incident is restored.
// A shortage in which nothing changes is not written again while it lasts.
const incidentKept = 24 * time.Hour

// export returns what the loop knows as plain values.
func (a *Agent) export() state.State {
	open := a.incidents.Export()
	incidents := make([]state.Incident, 0, len(open))
	for i := range open {
		incidents = append(incidents, state.Incident{Incident: open[i], Expires: open[i].Short.Add(incidentKept)})
	}
	return state.State{
		Incidents: incidents,
		InFlight:  a.victims.Export(), Cooldown: a.cooldown.Export(),
		InDoubt: a.doubts.export(),
	}
}

// restore puts back what a process before has known, before the first tick.
func (a *Agent) restore(s *state.State, now time.Time) {
	a.victims.Restore(s.InFlight, now)
	a.cooldown.Restore(s.Cooldown, now)
	a.restoreIncidents(s.Incidents, now)
	for i := range s.InDoubt {
		a.restoreInDoubt(&s.InDoubt[i], now)
	}
}

// restoreIncidents opens those again that were open. The first sample closes what is over.
func (a *Agent) restoreIncidents(kept []state.Incident, now time.Time) {
	open := make([]incident.Incident, 0, len(kept))
	for _, k := range kept {
		if now.Before(k.Expires) && int(k.Incident.Signal) < pressure.SignalCount {
			k.Incident.Began, k.Incident.Short = sooner(k.Incident.Began, now), sooner(k.Incident.Short, now)
			open = append(open, k.Incident)
		}
	}
	a.incidents.Restore(open)
	for i := range open {
		for _, v := range open[i].Victims {
			if v.DryRun && !a.victims.Booked(v.UID) {
				a.victims.Simulated().Restore(v.UID)
			}
		}
	}
}

// countedFor is how long an accepted eviction counts against a limit at most.
const countedFor = time.Hour

// restoreInDoubt puts back the request whose outcome is not known, so that its pod is read
// again before any other is evicted. After [decide.DoubtLasts] the API server has given it up, and
// the list of the pods says what became of it. Whether it was evictd's doing is not known
// then: it counts against the limits as if it was, and what its pod held of a disk is waited for.
func (a *Agent) restoreInDoubt(r *state.Request, now time.Time) {
	if !now.Before(r.Expires) {
		return
	}
	if now.Sub(r.Sent) > decide.DoubtLasts {
		a.cooldown.Count(r.OwnerUID, r.Sent)
		a.victims.AwaitSpace(goneInDoubt(r, now), now)
		a.changed = true // the next start finds when it was waited for, and not the request
		return
	}
	if signal, err := pressure.ParseSignal(r.Shortage.Signal); err == nil {
		open := inDoubtOf(r, signal, now)
		a.doubts.put(open.Asked.Resource(), open)
	}
}

// goneInDoubt returns the pod of a request in doubt as one that has ended when it should have, if
// the request was carried out.
func goneInDoubt(r *state.Request, now time.Time) inflight.Gone {
	grace := r.PodGraceSeconds
	if r.GraceSeconds != nil {
		grace = *r.GraceSeconds
	}
	at := sooner(r.Sent.Add(decide.GracePeriod(grace)+inflight.DeadlineMargin), now)
	gone := inflight.Gone{UID: r.UID, At: at, Expected: r.Expected.OnDisk(), Expires: at.Add(inflight.CollectedWithin)}
	if signal, err := pressure.ParseSignal(r.Shortage.Signal); err == nil {
		gone.Before = gone.Before.With(signal, r.Shortage.Available)
	}
	return gone
}

// inDoubtOf returns a request as it was when the process before ended.
func inDoubtOf(r *state.Request, signal pressure.Signal, now time.Time) *unheard {
	pod := &rank.Pod{
		Namespace: r.Namespace, Name: r.Name, UID: r.UID, Priority: r.Priority, Created: r.Created,
		Request: r.Requested, Usage: r.Usage, Sampled: true, GraceSeconds: r.PodGraceSeconds, Ready: r.Ready,
		Owner: r.Owner, OwnerUID: r.OwnerUID, OwnerAPIVersion: r.OwnerAPIVersion,
	}
	attempt := decide.Attempt{
		Entry: rank.Entry{
			Pod: pod, Resource: decide.RankedBy(signal), Over: pod.Usage - pod.Request, Exceeds: pod.Usage > pod.Request,
		},
		GraceSeconds: r.GraceSeconds,
		Result:       evict.Result{Outcome: evict.Unconfirmed, Silent: true, Late: true, Stays: r.Stays, Sent: sooner(r.Sent, now)},
	}
	if r.PastBudget != "" {
		attempt.Past = &evict.Budget{Name: r.PastBudget}
	}
	why := &r.Shortage
	asked := decide.Decision{Time: attempt.Result.Sent, Incident: r.Incident, Pressure: pressure.Pressure{
		Threshold: pressure.Threshold{Signal: signal, Quantity: pressure.Absolute(why.Line), Hard: why.Hard},
		Observed:  pressure.Observation{State: pressure.Known, Available: why.Available, Capacity: why.Capacity, Device: why.Resource.Device},
		Line:      why.Line, Target: why.Target, Since: sooner(why.Since, now), SampleTime: attempt.Result.Sent,
	}}
	return &unheard{InDoubt: decide.InDoubt{Attempt: attempt, Expected: r.Expected, Asked: asked, First: sooner(r.First, now)}}
}

// export returns the requests as values.
func (d *doubts) export() []state.Request {
	requests := make([]state.Request, 0, len(d.open))
	for _, u := range d.open {
		requests = append(requests, *u.export())
	}
	return requests
}

func (u *unheard) export() *state.Request {
	r := requestState(&u.InDoubt)
	r.Sent, r.Stays = u.Attempt.Result.Sent, u.Attempt.Result.Stays
	r.Expires = r.Sent.Add(countedFor)
	return r
}

// requestState returns a request as values, without the time when it was sent.
func requestState(open *decide.InDoubt) *state.Request {
	d, attempt := &open.Asked, &open.Attempt
	pod, p := attempt.Entry.Pod, &d.Pressure
	r := &state.Request{
		Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID,
		Owner: pod.Owner, OwnerUID: pod.OwnerUID, OwnerAPIVersion: pod.OwnerAPIVersion,
		Created: pod.Created, PodGraceSeconds: pod.GraceSeconds, Priority: pod.Priority,
		Usage: pod.Usage, Requested: pod.Request, Ready: pod.Ready,
		GraceSeconds: attempt.GraceSeconds, Expected: open.Expected, Incident: d.Incident, First: open.First,
		Shortage: state.Shortage{
			Signal: p.Threshold.Signal.String(), Hard: p.Threshold.Hard, Line: p.Line, Target: p.Target,
			Available: p.Observed.Available, Capacity: p.Observed.Capacity, Since: p.Since, Resource: d.Resource(),
		},
	}
	if attempt.Past != nil {
		r.PastBudget = attempt.Past.Name
	}
	return r
}

// sooner returns the earlier of two times: one of another process may not be in the future.
func sooner(t, limit time.Time) time.Time {
	if t.After(limit) {
		return limit
	}
	return t
}
