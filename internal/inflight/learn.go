package inflight

import (
	"time"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/pkg/evict"
)

// Learn takes what became of a plan, or of a request in doubt. It returns the request that was
// accepted for a new victim; nil when there is none. A refusal frees nothing. What a dry run simulated
// is not followed once it has ended.
func (t *Tracker) Learn(r *decide.Report, now time.Time) *decide.Attempt {
	t.claim(r.Last())
	t.learnDoubt(r, now)
	t.learnEscalations(r, now)
	victim := r.Victim()
	if victim != nil && (victim.Escalates || victim.Result.Outcome.Simulated() && !t.dryRun) {
		victim = nil
	}
	if victim != nil {
		v, grace := victimOf(victim, r, now), victim.Grace()
		v.Signal, v.Held, v.DryRun = r.Pressure.Threshold.Signal.String(), r.Held, victim.Result.Outcome.Simulated()
		v.GraceSeconds, v.Deadline = grace, decide.Deadline(grace, now)
		t.Accept(v)
	}
	t.learnOthers(r, now)
	return victim
}

// claim turns Gone into the end of an earlier request in doubt for the same pod, while that may have been carried out.
func (t *Tracker) claim(last *decide.Attempt) {
	if last == nil || last.Result.Outcome != evict.Gone {
		return
	}
	for _, v := range t.victims {
		if v.Phase == decide.Requested && v.UID == last.Entry.Pod.UID && v.Request.MayBeOurs(last.Result.Sent) {
			last.Result.Outcome = v.Request.Attempt.Request(false).Accepted()
			last.Result.Message += "; an earlier request for it was not answered, and has ended it"
			return
		}
	}
}

// victimOf returns the pod of a request as one in flight from now on.
func victimOf(a *decide.Attempt, r *decide.Report, now time.Time) decide.Victim {
	pod := a.Entry.Pod
	return decide.Victim{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, Expected: r.Expected, Accepted: now}
}

// learnOthers takes the pod of a report that is no victim of evictd's: the API server has forgotten it,
// admission moves it away by its own means, or another has ended it since its request. It counts against no
// limit, and its grace period is not shortened. While it is in flight it is no candidate.
func (t *Tracker) learnOthers(r *decide.Report, now time.Time) {
	var other *decide.Attempt
	until, moved := decide.HardPatience, false
	if r.Left != nil {
		other = &r.Left.Attempt
	}
	if last := r.Last(); last != nil && last.Result.Outcome == evict.Evacuating {
		other, moved = last, true
	} else if last != nil && last.Result.Outcome == evict.Gone { // the next decision measures what its cgroup still holds
		other, until = last, decide.GoneFor
	}
	if other == nil || moved && r.DryRun && !t.dryRun {
		return
	}
	v := victimOf(other, r, now)
	v.Deadline, v.Evacuating, v.DryRun = now.Add(until), moved, moved && r.DryRun
	t.Accept(v)
}

// learnEscalations takes the answers about victims that were to end sooner. They count against no
// limit: no other pod is evicted. Where one was accepted the victim is relied on again, to the new
// deadline.
func (t *Tracker) learnEscalations(r *decide.Report, now time.Time) {
	for i := range r.Attempts {
		a := &r.Attempts[i]
		v := t.find(decide.Terminating, a.Entry.Pod.UID)
		if !a.Escalates || v == nil {
			continue
		}
		v.EscalationsSent++
		switch outcome := a.Result.Outcome; {
		case outcome.Accepted():
			v.Escalated, v.GraceSeconds, v.Deadline = now, a.Grace(), decide.Deadline(a.Grace(), now)
		case outcome.Refused(), outcome == evict.Gone:
			v.EscalationsSent = decide.EscalationTries
		}
	}
}

// A request whose outcome is not known holds the decisions about its resource, so that no other pod is
// evicted for the same shortage. It holds no others: a soft request for a disk may be in doubt for half
// a minute, and memory cannot wait that long.

// restsFor is how long a pod is not read again that was there and may still be evicted by a
// request in doubt.
const restsFor = time.Second

// doubts returns the request in doubt about a resource, nil where there is none, and those about other
// resources whose pods may be terminating because of them.
func (t *Tracker) doubts(about decide.Resource, now time.Time) (own *decide.InDoubt, others []decide.InDoubt) {
	for _, v := range t.victims {
		switch {
		case v.Phase != decide.Requested:
		case decide.ResourceOf(&v.Request.Pressure) == about:
			own = v.Request
		case v.Request.MayBeOurs(now):
			others = append(others, *v.Request)
		}
	}
	return own, others
}

// learnDoubt takes what a plan found out about what is in doubt. A request that may still be carried
// out stays in doubt, also where a second one for its pod was refused: the API server charges a budget
// for the first one before it deletes the pod. A request for the same pod continues the row of
// attempts.
func (t *Tracker) learnDoubt(r *decide.Report, now time.Time) {
	before, _ := t.doubts(decide.ResourceOf(&r.Pressure), now)
	if before != nil && (r.InDoubt != nil || !before.MayStillApply(now)) {
		t.drop(func(v *decide.Victim) bool { return v.Request == before })
	}
	if r.InDoubt == nil {
		return
	}
	request := *r.InDoubt
	if before != nil && before.UID() == request.UID() {
		request.First = before.First
	}
	if len(r.Attempts) == 0 && !r.Unread { // it was read, and no request was sent
		request.Rests = now.Add(restsFor)
	}
	t.victims = append(t.victims, request.Victim())
}
