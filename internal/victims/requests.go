package victims

import (
	"time"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/execute"
	"github.com/evictd/evictd/internal/indoubt"
	"github.com/evictd/evictd/internal/inflight"
	"github.com/evictd/evictd/pkg/evict"
	"github.com/evictd/evictd/pkg/pressure"
)

// ObserveReport books the pods in flight by the outcome of a plan. It returns the request that was
// accepted for a new victim; nil when there is none. A refusal frees nothing. DryRun is that of the
// policy in force now: bookings that an earlier dry run simulated are dropped.
func (f *Follower) ObserveReport(d *decide.Decision, r *execute.Report, dryRun bool, now time.Time) *decide.Attempt {
	f.InDoubt.Observe(&indoubt.Report{
		Decision: d, InDoubt: r.InDoubt, Stays: len(d.Attempts) == 0 && r.Hold != decide.HoldNone && !r.Unread,
	}, now)
	f.escalate(d, now)
	victim := d.Victim()
	if victim != nil && (victim.Escalates || victim.Result.Outcome.Simulated() && !dryRun) {
		victim = nil
	}
	if victim != nil {
		f.accept(d, victim, r, now)
	}
	if gone := d.Last(evict.Gone); gone != nil { // the next decision measures what its cgroup still holds
		f.acceptOther(gone, r.Expected, now, now.Add(inflight.GoneFor))
	}
	if moved := d.Last(evict.Evacuating); moved != nil && (dryRun || !d.DryRun) {
		f.acceptMoved(moved, r.Expected, d.DryRun, now)
	}
	if r.Foreign != nil {
		f.acceptOther(r.Foreign, r.Expected, now, now.Add(inflight.HardPatience))
	}
	f.InDoubt.Forget(f.Booked) // its pod may be in doubt for another resource, too
	return victim
}

// accept books an accepted eviction.
func (f *Follower) accept(d *decide.Decision, accepted *decide.Attempt, r *execute.Report, now time.Time) {
	pod, grace := accepted.Entry.Pod, accepted.Grace()
	f.Accept(inflight.Booking{
		Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID,
		Expected: r.Expected, Held: r.Held, Signal: d.Pressure.Threshold.Signal.String(),
		Accepted: now, Deadline: deadlineOf(grace, now), GraceSeconds: grace,
		DryRun: accepted.Result.Outcome.Simulated(),
	})
}

// acceptOther books a pod that is no victim of evictd's: the API server has forgotten it, or another
// has ended it since its request. It counts against no limit, and its grace period is not shortened.
// While it is booked it is no candidate.
func (f *Follower) acceptOther(attempt *decide.Attempt, expected pressure.Amounts, now, deadline time.Time) {
	pod := attempt.Entry.Pod
	f.Accept(inflight.Booking{
		Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID,
		Expected: expected, Accepted: now, Deadline: deadline,
	})
}

// acceptMoved books a pod that admission moves away by its own means.
func (f *Follower) acceptMoved(moved *decide.Attempt, expected pressure.Amounts, dryRun bool, now time.Time) {
	pod := moved.Entry.Pod
	f.Accept(inflight.Booking{
		Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID,
		Expected: expected, Accepted: now, Deadline: now.Add(inflight.HardPatience), Evacuating: true, DryRun: dryRun,
	})
}

// escalate takes the answers about victims that were to end sooner. They count against no
// limit: no other pod is evicted.
func (f *Follower) escalate(d *decide.Decision, now time.Time) {
	for i := range d.Attempts {
		if attempt := &d.Attempts[i]; attempt.Escalates {
			grace := attempt.Grace()
			f.Escalate(attempt.Entry.Pod.UID, attempt.Result.Outcome, grace, deadlineOf(grace, now), now)
		}
	}
}

// deadlineOf returns when a pod with a grace period in seconds should have ended.
func deadlineOf(grace int64, now time.Time) time.Time {
	return now.Add(decide.GracePeriod(grace) + inflight.DeadlineMargin)
}
