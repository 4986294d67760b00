package decide

import (
	"time"

	"github.com/evictd/evictd/pkg/evict"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
)

// DoubtLasts is how long a pod's end may be a request's doing after that was sent: the API server
// gives it up after a while, and reading the pod takes its time. Later it is another's.
const DoubtLasts = evict.RequestTimeout + evict.LookTimeout

// InDoubt is a request whose outcome is unknown: its pod may be in flight. It is resolved when the
// pod is read or when the watch reports it, whichever comes first (docs/adr/0011). It is not changed
// once it was made.
type InDoubt struct {
	// Attempt is the request; Expected is what its pod's end should free.
	Attempt  Attempt          `json:"attempt"`
	Expected pressure.Amounts `json:"expected,omitzero"`
	// Incident, Pressure and Ranking are those of the decision that sent it; the ranking is not kept.
	Incident string            `json:"incident,omitempty"`
	Pressure pressure.Pressure `json:"pressure"`
	Ranking  rank.Ranking      `json:"-"`
	// First is when the first request of the row was sent: requests for the pod whose outcome is
	// unknown.
	First time.Time `json:"first"`
	// Rests is until when the pod is not read again, because it was read just now; the zero time
	// where it was not.
	Rests time.Time `json:"-"`
}

// UID returns the pod's.
func (u *InDoubt) UID() string { return u.Attempt.Entry.Pod.UID }

// MayStillApply reports whether the request may still be carried out. Where another was sent for
// the pod, and is in doubt too, the last one counts: it is the last to come.
func (u *InDoubt) MayStillApply(now time.Time) bool {
	return u.Attempt.Result.Pending && now.Sub(u.Attempt.Result.Sent) < evict.RequestTimeout
}

// MayBeOurs reports whether the pod's end that is seen now may be the request's doing.
func (u *InDoubt) MayBeOurs(now time.Time) bool { return now.Sub(u.Attempt.Result.Sent) <= DoubtLasts }

// MayRetry reports whether the pod may be tried again before the others. That is so for a bounded
// time, after which the others are tried too.
func (u *InDoubt) MayRetry(now time.Time) bool { return now.Sub(u.First) < evict.RequestTimeout }

// Undecided says why the request is waited for.
func (u *InDoubt) Undecided() string {
	return u.Attempt.Entry.Pod.Key() + " is not terminating, and may not be evicted again yet; the last request for it may still be carried out"
}

// Decision returns the record of what became of the request after its own decision. InFlight are
// the victims in flight now.
func (u *InDoubt) Decision(now time.Time, inFlight []Victim) *Decision {
	return &Decision{Time: now, Incident: u.Incident, Pressure: u.Pressure, Ranking: u.Ranking, InFlight: inFlight}
}

// Victim returns the pod as one in flight.
func (u *InDoubt) Victim() *Victim {
	pod, sent := u.Attempt.Entry.Pod, u.Attempt.Result.Sent
	return &Victim{
		Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, Phase: Requested, Request: u, Expected: u.Expected,
		Signal: u.Pressure.Threshold.Signal.String(), Accepted: sent, Deadline: sent.Add(DoubtLasts), GraceSeconds: u.Attempt.Grace(),
	}
}
