package agent

import (
	"slices"
	"time"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/inflight"
	"github.com/evictd/evictd/internal/nodepods"
	"github.com/evictd/evictd/pkg/evict"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
)

// A victim of soft pressure may have been granted an hour. When hard pressure comes, and
// the victim is not relied on any more, it is asked for again with the hard cap, before
// anybody else has to go: the Eviction API shortens the grace period of a pod that is
// terminating, and asks no budget for that (k8s.io/kubernetes
// pkg/registry/core/pod/storage/eviction.go, canIgnorePDB; k8s.io/apiserver
// pkg/registry/rest/delete.go, BeforeDelete). The shorter one counts from the pod's first
// request, so that a pod which has had more than that gets one second.
//
// Only evictd's own victims: somebody who drains a node, or deletes a pod by hand, chose
// its grace period. After a restart of the container the state file tells which are its own,
// see remember.go. Without one, as after the pod was replaced, nothing does: the condition
// DisruptionTarget says that the Eviction API was asked, and not by whom; a drain and a
// scale-down ask it too. So those keep what they have, and are waited for until their
// deadline.

// escalationTries is how many requests are sent for one victim while the API server does
// not answer, or is overloaded. A refusal is an answer: there is no second request.
const escalationTries = 3

// overdue returns a victim that should end sooner, the one that was asked for first; nil
// where there is none.
func (a *Agent) overdue(p *pressure.Pressure, pods []*nodepods.Pod) *nodepods.Pod {
	if !p.Threshold.Hard || a.policy.HardGrace <= 0 {
		return nil
	}
	for _, b := range a.victims.All() {
		if !a.escalates(p, &b) {
			continue
		}
		at := slices.IndexFunc(pods, func(pod *nodepods.Pod) bool { return pod.UID == b.UID })
		if at >= 0 && grantedTo(pods[at], &b) > a.policy.HardGrace {
			return pods[at]
		}
	}
	return nil
}

// escalates reports whether a victim may be asked for again: one of evictd's own, not
// relied on any more, that still holds something of what is missing.
func (a *Agent) escalates(p *pressure.Pressure, b *inflight.Booking) bool {
	return b.Signal != "" && b.DryRun == a.policy.DryRun &&
		b.Escalated.IsZero() && b.EscalationsSent < escalationTries &&
		!b.ReliedOn(p.SampleTime, inflight.PatienceOf(p)) &&
		b.Expected.At(p.Threshold.Signal) > 0
}

// grantedTo returns the grace period that a victim has: as the API server says, which may
// be less than it was granted where somebody else has shortened it, or as it was booked
// where the watch has not told, and in a dry run.
func grantedTo(pod *nodepods.Pod, b *inflight.Booking) int64 {
	if told := pod.DeletionGraceSeconds; told != nil {
		return *told
	}
	return b.GraceSeconds
}

// escalation returns the request to end a victim sooner; nil without a victim, or where
// nobody knows what it still uses.
func (a *Agent) escalation(p *pressure.Pressure, victim *nodepods.Pod, uses *decide.Uses) *decide.Attempt {
	if victim == nil || !uses.ByUID[victim.UID].Known {
		return nil
	}
	resource, seconds := decide.RankedBy(p.Threshold.Signal), a.policy.HardGrace
	pod := victim.Facts(resource, a.options.Self)
	pod.Usage, pod.Sampled = uses.ByUID[victim.UID].Value, true
	return &decide.Attempt{
		// No place in the ranking: it is no candidate.
		Entry: rank.Entry{
			Pod: &pod, Resource: resource, Over: pod.Usage - pod.Request, Exceeds: pod.Usage > pod.Request,
			Protection: rank.ProtectedTerminating,
		},
		GraceSeconds: &seconds, Escalates: true,
	}
}

// noteEscalation gives a victim that was given a shorter grace period a new deadline, to
// which it is relied on again. It counts against no limit: nobody new goes.
func (a *Agent) noteEscalation(attempt *decide.Attempt, now time.Time) {
	a.victims.Amend(attempt.Entry.Pod.UID, func(b *inflight.Booking) {
		b.EscalationsSent++
		switch outcome := attempt.Result.Outcome; {
		case outcome.Next() == evict.Done:
			b.Escalated, b.GraceSeconds = now, *attempt.GraceSeconds
			b.Deadline = now.Add(decide.GracePeriod(b.GraceSeconds) + inflight.DeadlineMargin)
		case outcome.Next() == evict.NextCandidate, outcome == evict.Gone:
			b.EscalationsSent = escalationTries
		}
	})
}
