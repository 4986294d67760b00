package cooldown

import (
	"fmt"
	"time"

	"github.com/evictd/evictd/pkg/evict"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
)

// Kind says what makes something wait.
type Kind uint8

// The kinds.
const (
	// Refused: the pod or its PDB was refused, or the pod was tried in this pressure.
	Refused Kind = iota
	// LimitReached: as many pods were evicted on the node as may be in a minute, or of one owner as
	// may be in an hour.
	LimitReached
	// ServerBackOff: the API server was overloaded or did not answer.
	ServerBackOff
	// SoftJitter: the first soft eviction of an incident waits for a random time.
	SoftJitter
	// BypassBackOff: bypassing a PDB came to nothing a moment ago.
	BypassBackOff
)

// Reason says why something waits. The zero value means nothing.
type Reason struct {
	Kind Kind
	// Until is when this reason ends if nothing else happens; it is in the future. Another
	// reason may hold after it.
	Until time.Time
	// Detail is one sentence for people; "" for [BypassBackOff].
	Detail string
	// Outcome is the refusal of a pod that is [Refused], and PDB the name of the
	// PodDisruptionBudget in it; "" where none refused, or the answer did not name it.
	Outcome evict.Outcome
	PDB     string
}

// Pressure is what a pod would be evicted for.
type Pressure struct {
	Signal pressure.Signal
	// Incident is the ID of the incident.
	Incident string
	// Hard says that a hard threshold is met.
	Hard bool
	// BypassPDB says that a PDB may be bypassed, so that its refusal alone keeps no pod.
	BypassPDB bool
}

// Answer is what the API server said about one pod.
type Answer struct {
	Pod    *rank.Pod
	Result evict.Result
}

// Report is what became of one plan.
type Report struct {
	Signal   pressure.Signal
	Incident string
	// Decided is when the plan was made.
	Decided time.Time
	// Answers are the responses to its requests. Shared are answers for pods that were not tried,
	// because the PDB that had refused another pod would refuse them too.
	Answers, Shared []Answer
	// Stale says that the plan ended because it was too old: the next plan continues with the pods
	// that were not tried yet.
	Stale bool
	// Unread says that the pod of a request in doubt could not be read.
	Unread bool
	// BypassFailed says that bypassing a PDB came to nothing.
	BypassFailed bool
}

// bypassBackOff is how long no PDB is bypassed after that came to nothing: the PDBs are read
// from the API server, and near a threshold there are a hundred ticks a second.
const bypassBackOff = 10 * time.Second

// Tracker remembers what waits. It is not safe for concurrent use.
type Tracker struct {
	random   func() float64
	refusals *refusals
	limiter  *limiter
	tried    [pressure.SignalCount]tried
	jitters  [pressure.SignalCount]jitter
	bypass   time.Time
}

// New returns a tracker that remembers nothing. Random returns numbers in [0,1).
func New(limits Limits, random func() float64) *Tracker {
	return &Tracker{
		random:   random,
		refusals: newRefusals(random), limiter: newLimiter(limits),
	}
}

// SetLimits changes the limits and keeps what was counted.
func (t *Tracker) SetLimits(limits Limits) { t.limiter.limits = limits }

// Observe learns from what became of a plan.
func (t *Tracker) Observe(r *Report, now time.Time) {
	for _, shared := range r.Shared {
		t.refusals.note(shared.Pod, shared.Result, now)
	}
	for _, a := range r.Answers {
		t.refusals.note(a.Pod, a.Result, now)
	}
	if r.Unread {
		t.refusals.noteUnread(now)
	}
	t.tried[r.Signal].observe(r)
	if r.BypassFailed {
		t.bypass = now.Add(bypassBackOff)
	}
}

// Accept counts an accepted eviction of a pod of the owner (the UID of its controller; "" for a bare
// pod), or a simulated one.
func (t *Tracker) Accept(owner string, dryRun bool, now time.Time) {
	t.limiter.count(owner, dryRun, now)
}

// Count counts an eviction against the limits when only its time is known.
func (t *Tracker) Count(owner string, at time.Time) { t.limiter.count(owner, false, at) }

// Retry forgets which pods were tried in a pressure: no other candidate is left.
func (t *Tracker) Retry(signal pressure.Signal) { t.tried[signal].refused = nil }

// Forget drops what is remembered of pods that are not present any more, and of PDBs that
// block none of the others.
func (t *Tracker) Forget(present func(uid string) bool) { t.refusals.forget(present) }

// ForgetDryRuns drops what dry runs counted: nothing happened to their pods.
func (t *Tracker) ForgetDryRuns() { t.limiter.forgetDryRuns() }

// Pod returns why a pod may not be evicted for now, whatever the limits, and false where it may be.
func (t *Tracker) Pod(pod *rank.Pod, in Pressure, now time.Time) (Reason, bool) {
	return t.refused(pod, in, now)
}

// refused returns the refusal for which a pod waits: by its back-off, or because it was tried
// in this pressure.
func (t *Tracker) refused(pod *rank.Pod, in Pressure, now time.Time) (Reason, bool) {
	bypassed := func(outcome evict.Outcome) bool { return in.BypassPDB && outcome.OfBudget() }
	r, waits := t.refusals.waits(pod, now)
	if waits && bypassed(r.Outcome) {
		r, waits = Reason{}, false
	}
	if last, tried := t.tried[in.Signal].of(pod.UID, in.Incident, now); tried && !bypassed(last.outcome) {
		r.Outcome, r.Until, waits = last.outcome, later(r.Until, last.until), true
	}
	if !waits {
		return Reason{}, false
	}
	r.Detail = "the last answer was " + string(r.Outcome)
	if r.PDB != "" {
		r.Detail = fmt.Sprintf("the last answer of PodDisruptionBudget %s was %s", r.PDB, r.Outcome)
	}
	return r, true
}

// SharedPDB returns the name of the PodDisruptionBudget whose refusal of any ready pod holds
// for this pod too; "" where there is none.
func (t *Tracker) SharedPDB(pod *rank.Pod, now time.Time) string { return t.refusals.shared(pod, now) }

// Node returns why no pod of the node may be evicted for now: the limit a minute.
func (t *Tracker) Node(now time.Time) (Reason, bool) { return t.limiter.node(now) }

// Owner returns why no pod of an owner, by the UID of the controller, may be evicted for now: the limit
// an hour.
func (t *Tracker) Owner(owner string, now time.Time) (Reason, bool) {
	return t.limiter.owner(owner, now)
}

// Server returns why no request may be sent to the API server now.
func (t *Tracker) Server(now time.Time) (Reason, bool) { return t.refusals.serverWaits(now) }

// Bypass returns why no PDB may be bypassed for now.
func (t *Tracker) Bypass(now time.Time) (Reason, bool) {
	return Reason{Kind: BypassBackOff, Until: t.bypass}, now.Before(t.bypass)
}

// Waiting returns how many pods wait because a PDB refused or because more than one selects them.
func (t *Tracker) Waiting(now time.Time) (blocked, misconfigured int) { return t.refusals.blocked(now) }
