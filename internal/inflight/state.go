package inflight

import (
	"slices"
	"time"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/state"
	"github.com/evictd/evictd/pkg/pressure"
)

// A victim that terminates is restored for a day after its deadline: one that is stuck must not look
// like a new one, and the first tick checks whether its pod is still there. A request in doubt is
// restored for as long as an accepted eviction counts against a limit at most.
const (
	terminatingKept = 24 * time.Hour
	requestedKept   = time.Hour
)

// State is what a [Tracker] knows that a restart must not forget.
type State struct {
	Victims []decide.Victim `json:"victims,omitempty"`
	// LastEnd is when a victim of evictd's last ended; the zero time when none has.
	LastEnd time.Time `json:"lastEnd,omitzero"`
}

// Export returns what the tracker knows. It shares nothing that is changed.
func (t *Tracker) Export() State {
	s := State{LastEnd: t.lastEnd}
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
// not known, and the space of a disk that its pod held is waited for. The others are in doubt still, so
// that their pods are read before any other is evicted.
func (t *Tracker) Restore(s State, now time.Time) (givenUp []*decide.InDoubt) {
	t.lastEnd = state.Restored(s.LastEnd, now, 0)
	for _, v := range s.Victims {
		switch v.Phase {
		case decide.Requested:
			if v.Request == nil || v.Request.Attempt.Entry.Pod == nil {
				continue // not what evictd writes
			}
			request := reopened(v.Request, now)
			switch sent := v.Request.Attempt.Result.Sent; {
			case now.Sub(sent) >= requestedKept:
			case now.Sub(sent) > decide.DoubtLasts:
				givenUp = append(givenUp, request)
				t.keep(presumed(request, now), now)
			default:
				t.victims = append(t.victims, request.Victim())
			}
		case decide.Gone:
			v.Ended = state.Restored(v.Ended, now, 0)
			t.keep(v, now)
		default:
			t.restoreTerminating(v, now)
		}
	}
	return givenUp
}

// keep takes a victim that has ended and may still be in flight. A would-be victim runs on.
func (t *Tracker) keep(v decide.Victim, now time.Time) {
	if v.DryRun || now.Sub(v.Ended) < decide.CollectedWithin {
		t.victims = append(t.victims, &v)
	}
}

func (t *Tracker) restoreTerminating(v decide.Victim, now time.Time) {
	if now.Sub(v.Deadline) >= terminatingKept {
		return
	}
	accepted := state.Restored(v.Accepted, now, 0)
	v.Accepted, v.Deadline = accepted, accepted.Add(v.Deadline.Sub(v.Accepted))
	v.Escalated = state.Restored(v.Escalated, now, 0)
	t.victims = append(t.victims, &v)
	t.follow(&v)
}

// reopened returns a request as it was when the process before ended.
func reopened(kept *decide.InDoubt, now time.Time) *decide.InDoubt {
	r := *kept
	sent, p := state.Restored(r.Attempt.Result.Sent, now, 0), &r.Pressure
	r.First, r.Attempt.Result.Sent = state.Restored(r.First, now, 0), sent
	p.Since, p.SampleTime, p.Threshold.Quantity = state.Restored(p.Since, now, 0), sent, pressure.Absolute(p.Line)
	return &r
}

// presumed returns the pod of a request as one that ended when it should have, if the request was
// carried out.
func presumed(r *decide.InDoubt, now time.Time) decide.Victim {
	v, signal := r.Victim(), r.Pressure.Threshold.Signal
	ended := r.Attempt.Result.Sent.Add(decide.GracePeriod(r.Attempt.Grace()) + decide.DeadlineMargin)
	v.Phase, v.Request, v.Presumed = decide.Gone, nil, true
	v.Expected, v.Before = v.Expected.OnDisk(), v.Before.With(signal, r.Pressure.Observed.Available)
	v.Ended = state.Restored(ended, now, 0)
	return *v
}
