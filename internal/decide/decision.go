// Package decide holds what evictd decides, as values: the [Decision], its requests, and why no pod
// was evicted. It imports no client and no clock.
package decide

import (
	"time"

	"github.com/evictd/evictd/pkg/evict"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
	"github.com/evictd/evictd/pkg/usage"
)

// Verb says what a decision came to.
type Verb string

// The verbs.
const (
	// Acted: an eviction was accepted, or would have been in a dry run.
	Acted Verb = "Acted"
	// Held: there was pressure and no pod is evicted; Decision.Hold says why.
	Held Verb = "Held"
	// Refused: every candidate that was tried was refused.
	Refused Verb = "Refused"
	// Escalated: a victim that should have ended by now was given a shorter grace period, or would
	// have been in a dry run. No other pod is evicted.
	Escalated Verb = "Escalated"
)

// Attempt is one eviction request of a decision and its answer.
type Attempt struct {
	// Entry is the candidate, with its place in the ranking.
	Entry rank.Entry `json:"entry"`
	// GraceSeconds is the grace period in the request; nil is the pod's own.
	GraceSeconds *int64 `json:"graceSeconds,omitempty"`
	// Bypassed is the budget that a delete bypassed; nil for an eviction.
	Bypassed *evict.Budget `json:"bypassed,omitempty"`
	// Escalates says that the pod is a victim already, and should get a shorter grace
	// period: the request counts as no new eviction.
	Escalates bool `json:"escalates,omitempty"`
	// Result is the API server's answer.
	Result evict.Result `json:"result"`
}

// Grace returns the grace period the pod gets, in seconds: the one in the request, else its own.
func (a *Attempt) Grace() int64 {
	if a.GraceSeconds != nil {
		return *a.GraceSeconds
	}
	return a.Entry.Pod.GraceSeconds
}

// Request returns the request itself.
func (a *Attempt) Request(dryRun bool) evict.Request {
	pod := a.Entry.Pod
	return evict.Request{
		Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, GraceSeconds: a.GraceSeconds,
		Delete: a.Bypassed != nil, Shorten: a.Escalates, DryRun: dryRun,
	}
}

// Process is a process outside the pods.
type Process struct {
	// Name is the kernel's name of it, 15 bytes at most. Unit is the systemd unit or container
	// that it belongs to; "" where there is none.
	Name, Unit string
	// RSS is its resident memory in bytes, shared pages included.
	RSS int64
}

// Decision is the record of one tick that acted or chose not to. It holds all
// that is needed to see why.
type Decision struct {
	// Incident is the ID of the shortage that the decision is part of; "" where there is
	// none, as in a test that makes its own decision.
	Incident string
	// Time is when the sample was read that the decision is based on. With the signal it tells one
	// decision of a process from another: the lines about its requests have both.
	Time time.Time
	// Pressure is the threshold that was dealt with and what was observed.
	Pressure pressure.Pressure
	// DryRun says that the requests were server-side dry runs, and DryRunWhy why evictd did not
	// act, in one clause; "" where it did, or that is not known.
	DryRun    bool
	DryRunWhy string
	// Simulated is how much of what is available counts as reclaimed from simulated victims that
	// still run, in the signal's unit; 0 outside of a dry run. See
	// docs/adr/0015-dry-run-counts-would-be-victims-as-reclaimed.md.
	Simulated int64
	// Hold is why no pod was evicted; [HoldNone] where a request was sent.
	Hold Hold
	// Detail is one sentence with what Hold alone does not say; "" when there is
	// nothing to add.
	Detail string
	// Notes are sentences about what was done besides the requests, as about the node's taint; nil
	// when there is nothing to say.
	Notes []string
	// Ranking is the whole order; empty when the decision did not come that far.
	Ranking rank.Ranking
	// Breakdown says what uses a disk, or the node's memory; nil for other signals, and when it is
	// not known.
	Breakdown Breakdown
	// Outside are the processes outside the pods that have the most resident memory, the
	// largest first, where no eviction would help the node's memory; nil elsewhere, and where
	// they are not known.
	Outside []Process
	// Attempts are the requests that were sent, in order.
	Attempts []Attempt
	// InFlight are the victims that had not ended yet when the decision was made.
	InFlight []Victim
}

// Verb returns what the decision came to.
func (d *Decision) Verb() Verb {
	switch victim := d.Victim(); {
	case len(d.Attempts) == 0:
		return Held
	case victim == nil:
		return Refused
	case victim.Escalates:
		return Escalated
	default:
		return Acted
	}
}

// Last returns the last attempt; nil where there is none.
func (d *Decision) Last() *Attempt {
	if len(d.Attempts) == 0 {
		return nil
	}
	return &d.Attempts[len(d.Attempts)-1]
}

// Victim returns the attempt that was accepted, which is the last one, or nil.
func (d *Decision) Victim() *Attempt {
	if last := d.Last(); last != nil && last.Result.Outcome.Accepted() {
		return last
	}
	return nil
}

// Part names what a part of a disk is used by, or of memory: those are hostinfo's.
type Part string

// The parts of a disk.
const (
	// PartLayers are the writable layers of the pods' containers.
	PartLayers Part = "Layers"
	// PartLogs are the pods' logs.
	PartLogs Part = "Logs"
	// PartEmptyDirs are the pods' local volumes: disk emptyDirs, and what little
	// configMaps hold.
	PartEmptyDirs Part = "EmptyDirs"
	// PartDeleted are files without a name that the pods' processes have open. Not every source
	// knows them; otherwise they are part of [PartOther].
	PartDeleted Part = "Deleted"
	// PartOther is all that belongs to no pod that runs: images, dead containers,
	// hostPath volumes, the host's files, deleted files that the host has open, and
	// what the filesystem keeps for root.
	PartOther Part = "Other"
)

// Breakdown says what uses a disk signal, in the signal's unit, or memory, in bytes. A part that is
// not known is missing; nil when nothing may be reported. For a disk, without [PartOther] not every
// pod is known completely, and the parts are lower bounds: what is not known of a pod would
// otherwise count as used outside the pods.
type Breakdown map[Part]int64

// Plan is a decision that is ready to be carried out, with all that this needs. What it points to
// does not change while it is.
type Plan struct {
	// Decision is what was decided, and why. It has no attempts yet.
	Decision Decision
	// InDoubt is an earlier request for the same resource whose outcome is not known: its pod is
	// read before any request is sent; nil where there is none. Others are those for other
	// resources.
	InDoubt *InDoubt
	Others  []InDoubt
	// Candidates are the pods that may be evicted, in order; or the one victim that should end sooner.
	Candidates []Candidate
	// Taint has the first request wait, for a moment, until the node carries its taint.
	Taint bool
	// BypassPDB lets one pod be deleted although its PodDisruptionBudget blocks it, see docs/adr/0013.
	BypassPDB bool
	// Required is how much the candidates that are left must be able to free together, once one was
	// refused, in the signal's unit; 0 requires nothing.
	Required int64
}

// Held reports whether no pod is evicted: Decision.Hold says why.
func (p *Plan) Held() bool { return p.Decision.Hold != HoldNone }

// Escalates reports whether the plan is to have a victim end sooner: no other request is sent.
func (p *Plan) Escalates() bool { return len(p.Candidates) == 1 && p.Candidates[0].Escalates }

// NoneLeft reports whether the plan was made without a candidate left: then the pods that were tried
// in its pressure may be tried again.
func (p *Plan) NoneLeft() bool {
	ranking := &p.Decision.Ranking
	return len(p.Candidates) == 0 && len(ranking.Candidates)+len(ranking.Protected) > 0
}

// Candidate is one pod that may be evicted.
type Candidate struct {
	// Attempt is the request for it, without an answer.
	Attempt

	// Expected is what its end should free.
	Expected pressure.Amounts
	// BlockedByPDB says that a budget refused it a short while ago, so that the only request for it
	// is one that bypasses the budget. PDB is the name of the budget that refused it last, and so selects
	// it; "" when there is none, or the answer did not name it.
	BlockedByPDB bool
	PDB          string
}

// Report is what became of a plan, or of a request in doubt.
type Report struct {
	// Decision is the plan's, with its requests. Its hold is why no request was sent, or why no PDB was
	// bypassed after those that were; HoldNone elsewhere. Its detail says that, or why the plan was not
	// carried out completely; "" where it was.
	Decision

	// Expected is what the end of the last attempt's pod should free, or of Left's.
	Expected pressure.Amounts
	// Held is what the last attempt's pod held in detail when its eviction was accepted; nil
	// where that is not known.
	Held usage.Detail
	// InDoubt is the request whose outcome is not known; nil where there is none. Unread says
	// that its pod could not be read.
	InDoubt *InDoubt
	Unread  bool
	// Left is an earlier request in doubt whose pod was read and is terminating or has ended; the plan sent
	// no request then. Nil when there is none.
	Left *InDoubt
	// Shared are refusals of attempts that hold for other pods too, as attempts for those.
	Shared []Attempt
	// Stale says that the plan grew too old: the next plan continues where this one ended.
	Stale bool
}
