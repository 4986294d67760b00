package agent

import (
	"time"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/inflight"
	"github.com/evictd/evictd/pkg/evict"
)

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
			b.EscalationsSent = inflight.EscalationTries
		}
	})
}
