package decide

import (
	"time"

	"github.com/evictd/evictd/internal/nodepods"
	"github.com/evictd/evictd/pkg/evict"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
	"github.com/evictd/evictd/pkg/usage"
)

// DeadlineMargin is how long after its grace period a victim may still take to disappear before
// it counts as stuck: the kubelet's own clean-up.
const DeadlineMargin = 15 * time.Second

// Deadline returns when a pod with a grace period in seconds, as the API writes it, should have ended if that begins now.
// It is limited to a year: the API takes any int64, and ten thousand million seconds would otherwise overflow to a time
// in the past, and the victim would be stuck at once.
func Deadline(seconds int64, now time.Time) time.Time {
	const year = 365 * 24 * 60 * 60
	return now.Add(time.Duration(min(seconds, year))*time.Second + DeadlineMargin)
}

// HardPatience is how long hard pressure relies on one victim whose grace period is longer than
// that: the kernel's OOM killer does not wait for a pod that takes an hour to end. Soft pressure
// relies on it to its deadline. It is also how long what others are ending counts.
const HardPatience = time.Minute + DeadlineMargin

// GoneFor is how long a pod counts that the API server has forgotten: its grace period, by the
// default for a pod that sets none, has begun before.
const GoneFor = time.Duration(nodepods.DefaultGraceSeconds)*time.Second + DeadlineMargin

// CollectedWithin is how long after its end a victim's layers and logs may still be there: the
// kubelet removes them with the next collection of dead containers, and the runtime takes a moment
// for it. ShownWithin is the same of memory and tasks, which show at once: it matters where
// something else takes them meanwhile.
const (
	CollectedWithin = time.Minute + DeadlineMargin
	ShownWithin     = 10 * time.Second
)

// ReturnsWithin returns how long after its end a victim may be in flight.
func ReturnsWithin(signal pressure.Signal) time.Duration {
	if signal.OnDisk() {
		return CollectedWithin
	}
	return ShownWithin
}

// EscalationTries is how many requests are sent to end one victim sooner while the API server does
// not answer, or is overloaded. A refusal is an answer: there is no second request.
const EscalationTries = 3

// Phase is how far a victim is on its way.
type Phase string

// The phases.
const (
	// Requested: its eviction was requested, and the outcome is not known; see [InDoubt].
	Requested Phase = "requested"
	// Terminating: its eviction was accepted, or others end it.
	Terminating Phase = "terminating"
	// Gone: it has ended, and what it held has not shown yet. A would-be victim of a dry run runs on:
	// what it holds counts as reclaimed.
	Gone Phase = "gone"
)

// Victim is one pod that is in flight, and what its end should free.
type Victim struct {
	// Namespace, Name and UID identify the victim. Namespace and Name are "" where the API server does not
	// list the pod any more, if it ever did: all that is known of it is a cgroup.
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
	UID       string `json:"uid"`
	Phase     Phase  `json:"phase,omitempty"`
	// Request is the one in doubt of a victim that is requested; nil in the other phases.
	Request *InDoubt `json:"request,omitempty"`
	// Expected is what its end should still free, by the last measurement and by what has shown since. A signal
	// that is not known expects nothing.
	Expected pressure.Amounts `json:"expected,omitzero"`
	// Before is what was available when that was measured.
	Before pressure.Amounts `json:"before,omitzero"`
	// Held is the detail of its cgroup when its eviction was accepted; nil when that is not known,
	// and after a restart.
	Held usage.Detail `json:"-"`
	// Signal is the name of the signal the victim was evicted for; "" for a pod that others end.
	Signal string `json:"signal,omitempty"`
	// Accepted is when the API server took the eviction, or since when a pod that others end
	// counts.
	Accepted time.Time `json:"accepted,omitzero"`
	// Deadline is when it should have ended: its grace period plus a margin. After it the victim is
	// stuck and no longer relied on. For a pod that others end it is until when it counts.
	Deadline time.Time `json:"deadline,omitzero"`
	// Ended is when it was found to have ended: the API server does not list it any more, and its cgroup
	// does not exist. The zero time before.
	Ended time.Time `json:"ended,omitzero"`
	// GraceSeconds is the grace period that it was granted last; it means nothing for a
	// pod that evictd found terminating.
	GraceSeconds int64 `json:"graceSeconds,omitempty"`
	// Escalated is when the API server took the request to shorten its grace period; the
	// zero time when there was none. EscalationsSent counts such requests, answered or
	// not.
	Escalated       time.Time `json:"escalated,omitzero"`
	EscalationsSent int       `json:"escalationsSent,omitempty"`
	// DryRun says that the victim is not really in flight: it counts as ended from its deadline on.
	DryRun bool `json:"dryRun,omitempty"`
	// Evacuating says that admission moves the pod away by its own means and that nothing shows
	// whether it does: it counts to its deadline.
	Evacuating bool `json:"evacuating,omitempty"`
}

// Key names the victim: namespace/name, or the UID where no name is known.
func (v *Victim) Key() string {
	if v.Name == "" {
		return v.UID
	}
	return v.Namespace + "/" + v.Name
}

// Stuck reports whether the victim should have ended by now.
func (v *Victim) Stuck(now time.Time) bool { return !v.DryRun && now.After(v.Deadline) }

// MayEscalate reports whether evictd may request a shorter grace period for the victim: evictd
// evicted it, and no such request was accepted or refused.
func (v *Victim) MayEscalate() bool {
	return v.Signal != "" && v.Escalated.IsZero() && v.EscalationsSent < EscalationTries
}

// ReliedOn reports whether a pressure still waits for the victim's end: it is not stuck, and under hard
// pressure its eviction was requested no longer than [HardPatience] ago. A pod that others end is waited
// for to its deadline.
func (v *Victim) ReliedOn(p *pressure.Pressure) bool {
	asked, now := v.Accepted, p.SampleTime
	if v.Escalated.After(asked) {
		asked = v.Escalated
	}
	return !v.Stuck(now) && (v.Signal == "" || !p.Threshold.Hard || now.Sub(asked) <= HardPatience)
}

// Relied returns what the victims that a pressure relies on should still free of its signal, in its unit.
func Relied(victims []Victim, p *pressure.Pressure) (expected int64) {
	for i := range victims {
		if v := &victims[i]; v.ReliedOn(p) {
			expected += v.Expected.At(p.Threshold.Signal)
		}
	}
	return expected
}

// Ended is a victim that evictd evicted and that has ended.
type Ended struct {
	// Victim is how it was booked, and Signal what it was evicted for, as Victim.Signal.
	Victim Victim
	Signal pressure.Signal
	// Expected is what it was expected to free of the signal when it was accepted, in
	// the signal's unit; nil where that was not known.
	Expected *int64
	// Last is what it should have freed by the last measurement before it began to end, and Freed by how
	// much what is available and what the other pods hold, together, grew from that measurement to its
	// end; nil where that is not known. Freed may be negative: a process outside the pods took more
	// meanwhile.
	Last, Freed *int64
}

// Took returns how long it took, from its acceptance.
func (e *Ended) Took() time.Duration { return e.Victim.Ended.Sub(e.Victim.Accepted) }

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

// CarriedOut returns the report that the request was carried out, after that of its own decision; how names the source.
// It has no times: nothing was sent. InFlight are the victims in flight now.
func (u *InDoubt) CarriedOut(now time.Time, how string, inFlight []Victim) Report {
	attempt := u.Attempt
	attempt.Result = evict.Result{
		Outcome: attempt.Request(false).Accepted(), Message: "there was no response to the request; " + how + " told its outcome",
	}
	return Report{Expected: u.Expected, Decision: Decision{
		Time: now, Incident: u.Incident, Pressure: u.Pressure, Ranking: u.Ranking, InFlight: inFlight, Attempts: []Attempt{attempt},
	}}
}

// Victim returns the pod as one in flight.
func (u *InDoubt) Victim() *Victim {
	pod, sent := u.Attempt.Entry.Pod, u.Attempt.Result.Sent
	return &Victim{
		Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, Phase: Requested, Request: u, Expected: u.Expected,
		Signal: u.Pressure.Threshold.Signal.String(), Accepted: sent, Deadline: sent.Add(DoubtLasts), GraceSeconds: u.Attempt.Grace(),
	}
}
