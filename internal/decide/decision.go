// Package decide holds what evictd decides, as values: the [Decision], its requests, and why no pod
// was evicted. It imports no client and no clock.
package decide

import (
	"time"

	"github.com/evictd/evictd/pkg/evict"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
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
