package inflight

import (
	"slices"
	"time"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/state"
	"github.com/evictd/evictd/pkg/pressure"
)

// requestedKept is how long a request in doubt is restored: as long as an accepted eviction counts against a limit at
// most. A victim that terminates is restored always: the first tick checks whether its pod is still there.
const requestedKept = time.Hour

// State is what a [Tracker] knows that a restart must not forget.
type State struct {
	Victims []decide.Victim `json:"victims,omitempty"`
	// LastEnd is when a victim of evictd's last ended; the zero time when none has. The ends of other pods do not
	// count: on a node with short jobs pods end all the time. Unknown is when a process began that knew not all
	// of the time before, so that a victim of then may be in flight; the zero time when none did.
	LastEnd time.Time `json:"lastEnd,omitzero"`
	Unknown time.Time `json:"unknown,omitzero"`
}

// Export returns what the tracker knows. It shares nothing that is changed.
func (t *Tracker) Export() State {
	s := State{LastEnd: t.lastEnd, Unknown: t.unknown}
	for _, v := range t.victims {
		s.Victims = append(s.Victims, *v)
	}
	return s
}

// With returns the state with a request that is about to be sent, in place of the one in doubt about the same
// resource. It changes nothing of the state.
func (s State) With(open *decide.InDoubt) State {
	s.Victims = slices.DeleteFunc(slices.Clone(s.Victims), func(v decide.Victim) bool {
		return v.Phase == decide.Requested && decide.ResourceOf(&v.Request.Pressure) == decide.ResourceOf(&open.Pressure)
	})
	s.Victims = append(s.Victims, *open.Victim())
	return s
}

// Restore takes what was exported and has not expired, before anything else happens, and returns the
// requests of the process before that the API server has given up since: whether one was carried out is
// not known, and a victim may be in flight of which nothing is. The others are in doubt still, so that their
// pods are read before any other is evicted.
func (t *Tracker) Restore(s State, now time.Time) (givenUp []*decide.InDoubt) {
	t.lastEnd, t.unknown = state.Restored(s.LastEnd, now, 0), state.Restored(s.Unknown, now, 0)
	for _, v := range s.Victims {
		requested := v.Phase == decide.Requested
		if requested && (v.Request == nil || v.Request.Attempt.Entry.Pod == nil) {
			continue // not what evictd writes
		}
		accepted := state.Restored(v.Accepted, now, 0)
		v.Accepted, v.Deadline = accepted, accepted.Add(v.Deadline.Sub(v.Accepted))
		v.Ended, v.Escalated = state.Restored(v.Ended, now, 0), state.Restored(v.Escalated, now, 0)
		switch {
		case requested && now.Sub(accepted) >= requestedKept,
			returns(&v) && now.Sub(v.Ended) >= decide.CollectedWithin:
		case requested && now.Sub(accepted) > decide.DoubtLasts:
			t.unknown = now
			givenUp = append(givenUp, reopened(v.Request, now))
		case requested:
			t.victims = append(t.victims, reopened(v.Request, now).Victim())
		default:
			t.victims = append(t.victims, &v)
			t.follow(&v)
		}
	}
	return givenUp
}

// reopened returns a request as it was when the process before ended.
func reopened(kept *decide.InDoubt, now time.Time) *decide.InDoubt {
	r := *kept
	sent, p := state.Restored(r.Attempt.Result.Sent, now, 0), &r.Pressure
	r.First, r.Attempt.Result.Sent = state.Restored(r.First, now, 0), sent
	p.Since, p.SampleTime, p.Threshold.Quantity = state.Restored(p.Since, now, 0), sent, pressure.Absolute(p.Line)
	return &r
}
