package victims

import (
	"time"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/indoubt"
	"github.com/evictd/evictd/pkg/evict"
)

// ObserveReport books the pods in flight by the outcome of a plan. It returns the request that was
// accepted for a new victim; nil when there is none. A refusal frees nothing. DryRun is that of the
// policy in force now: bookings that an earlier dry run simulated are dropped.
func (f *Follower) ObserveReport(d *decide.Decision, r *decide.Report, dryRun bool, now time.Time) *decide.Attempt {
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
	f.acceptOthers(d, r, dryRun, now)
	f.InDoubt.Forget(f.Booked) // its pod may be in doubt for another resource, too
	return victim
}

// accept books an accepted eviction.
func (f *Follower) accept(d *decide.Decision, accepted *decide.Attempt, r *decide.Report, now time.Time) {
	pod, grace := accepted.Entry.Pod, accepted.Grace()
	f.Accept(decide.Victim{
		Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID,
		Expected: r.Expected, Held: r.Held, Signal: d.Pressure.Threshold.Signal.String(),
		Accepted: now, Deadline: deadlineOf(grace, now), GraceSeconds: grace,
		DryRun: accepted.Result.Outcome.Simulated(),
	})
}

// acceptOthers books the pod of a report that is no victim of evictd's: the API server has forgotten it,
// admission moves it away by its own means, or another has ended it since its request. It counts against no
// limit, and its grace period is not shortened. While it is booked it is no candidate.
func (f *Follower) acceptOthers(d *decide.Decision, r *decide.Report, dryRun bool, now time.Time) {
	gone, moved := d.Last(evict.Gone), d.Last(evict.Evacuating)
	other, until := r.Foreign, now.Add(decide.HardPatience)
	switch {
	case moved != nil && d.DryRun && !dryRun:
		return
	case moved != nil:
		other = moved
	case gone != nil: // the next decision measures what its cgroup still holds
		other, until = gone, now.Add(decide.GoneFor)
	case other == nil:
		return
	}
	pod := other.Entry.Pod
	f.Accept(decide.Victim{
		Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, Expected: r.Expected,
		Accepted: now, Deadline: until, Evacuating: moved != nil, DryRun: moved != nil && d.DryRun,
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
	return now.Add(decide.GracePeriod(grace) + decide.DeadlineMargin)
}
