package indoubt

import (
	"time"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/inflight"
	"github.com/evictd/evictd/internal/restored"
	"github.com/evictd/evictd/internal/state"
	"github.com/evictd/evictd/pkg/evict"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
)

// keptFor is how long an accepted eviction counts against a limit at most.
const keptFor = time.Hour

// Export returns the requests as values.
func (t *Tracker) Export() []state.Request {
	kept := make([]state.Request, 0, len(t.open))
	for _, open := range t.open {
		r := RequestOf(&open.InDoubt, open.Attempt.Result.Sent)
		r.Stays = open.Attempt.Result.Stays
		kept = append(kept, r)
	}
	return kept
}

// Presumed is a request of the previous process that the API server has given up since. Whether it
// was carried out is not known: it counts against the limits as if it was, and the space that its
// pod held of a disk is waited for.
type Presumed struct {
	// OwnerUID is that of the pod's controller; "" for a bare pod. Sent is when it was sent.
	OwnerUID string
	Sent     time.Time
	// Gone is its pod, as one that has ended.
	Gone inflight.Gone
}

// Restore takes what was exported and has not expired, so that the pods are read again before any
// other is evicted. After [decide.DoubtLasts] the API server has given a request up, and the list
// of the pods says what became of it: these are returned.
func (t *Tracker) Restore(kept []state.Request, now time.Time) []Presumed {
	var presumed []Presumed
	for i := range kept {
		r := &kept[i]
		if !now.Before(r.Expires) {
			continue
		}
		if now.Sub(r.Sent) > decide.DoubtLasts {
			presumed = append(presumed, Presumed{OwnerUID: r.OwnerUID, Sent: restored.Time(r.Sent, now, 0), Gone: goneOf(r, now)})
			continue
		}
		if signal, err := pressure.ParseSignal(r.Shortage.Signal); err == nil {
			open := reopened(r, signal, now)
			t.put(open.Asked.Resource(), open)
		}
	}
	return presumed
}

// goneOf returns the pod of a request in doubt as one that ended when it should have, if the request
// was carried out.
func goneOf(r *state.Request, now time.Time) inflight.Gone {
	grace := r.PodGraceSeconds
	if r.GraceSeconds != nil {
		grace = *r.GraceSeconds
	}
	at := restored.Time(r.Sent.Add(decide.GracePeriod(grace)+decide.DeadlineMargin), now, 0)
	gone := inflight.Gone{Namespace: r.Namespace, Name: r.Name, UID: r.UID, Signal: r.Shortage.Signal, InDoubt: true, At: at, Expected: r.Expected.OnDisk(), Expires: at.Add(inflight.CollectedWithin)}
	if signal, err := pressure.ParseSignal(r.Shortage.Signal); err == nil {
		gone.Before = gone.Before.With(signal, r.Shortage.Available)
	}
	return gone
}

// reopened returns a request as it was when the process before ended.
func reopened(r *state.Request, signal pressure.Signal, now time.Time) *request {
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
		Result:       evict.Result{Outcome: evict.Unconfirmed, NoResponse: true, Pending: true, Stays: r.Stays, Sent: restored.Time(r.Sent, now, 0)},
	}
	if r.BypassedPDB != "" {
		attempt.Bypassed = &evict.Budget{Name: r.BypassedPDB}
	}
	why := &r.Shortage
	asked := decide.Decision{Time: attempt.Result.Sent, Incident: r.Incident, Pressure: pressure.Pressure{
		Threshold: pressure.Threshold{Signal: signal, Quantity: pressure.Absolute(why.Line), Hard: why.Hard},
		Observed:  pressure.Observation{State: pressure.Known, Available: why.Available, Capacity: why.Capacity, Device: why.Resource.Device},
		Line:      why.Line, Target: why.Target, Since: restored.Time(why.Since, now, 0), SampleTime: attempt.Result.Sent,
	}}
	return &request{InDoubt: decide.InDoubt{Attempt: attempt, Expected: r.Expected, Asked: asked, First: restored.Time(r.First, now, 0)}}
}

// RequestOf returns a request as values, as it was, or is about to be, sent.
func RequestOf(open *decide.InDoubt, sent time.Time) state.Request {
	d, attempt := &open.Asked, &open.Attempt
	pod, p := attempt.Entry.Pod, &d.Pressure
	r := state.Request{
		Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID,
		Owner: pod.Owner, OwnerUID: pod.OwnerUID, OwnerAPIVersion: pod.OwnerAPIVersion,
		Created: pod.Created, PodGraceSeconds: pod.GraceSeconds, Priority: pod.Priority,
		Usage: pod.Usage, Requested: pod.Request, Ready: pod.Ready,
		GraceSeconds: attempt.GraceSeconds, Expected: open.Expected, Incident: d.Incident,
		First: open.First, Sent: sent, Expires: sent.Add(keptFor),
		Shortage: state.Shortage{
			Signal: p.Threshold.Signal.String(), Hard: p.Threshold.Hard, Line: p.Line, Target: p.Target,
			Available: p.Observed.Available, Capacity: p.Observed.Capacity, Since: p.Since, Resource: d.Resource(),
		},
	}
	if attempt.Bypassed != nil {
		r.BypassedPDB = attempt.Bypassed.Name
	}
	return r
}
