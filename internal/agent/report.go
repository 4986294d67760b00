package agent

import (
	"time"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/pkg/pressure"
)

// report is what became of a plan.
type report struct {
	decision *decide.Decision
	expected pressure.Amounts // what the end of the accepted or gone victim should free
	unheard  *unheard         // what nobody knows the end of; nil when there is nothing
	unread   bool             // its pod could not be read
	foreign  *decide.Attempt  // whose pod another has ended meanwhile; nil when there is none
	hold     decide.Hold      // why nobody was asked for; HoldNone when somebody was
	slots    *slotWalk        // what the brake said; nil when it was not asked
	aged     bool             // the walk ended for its age: the next one goes on
}

// takeReport takes what became of a plan: it books the victim, remembers the refusals and
// records the decision.
func (a *Agent) takeReport(r report) {
	now := time.Now()
	defer a.saveReport()
	a.noteSpared(a.acting, now)
	a.acting = nil
	a.doubts.put(r.decision.Resource(), a.unheardAfter(&r, now))
	for i := range r.decision.Attempts {
		attempt := &r.decision.Attempts[i]
		if !attempt.Result.NoRight || attempt.Past == nil {
			a.backoff.Note(refusedOf(attempt.Entry.Pod), attempt.Result, now)
		}
		if attempt.Escalates {
			a.noteEscalation(attempt, now)
		}
	}
	a.noteRound(&r)
	a.noteSlots(r.slots, now)
	a.bookReport(&r, now)
	a.dropBooked() // its pod may be in doubt for another resource, too
	if !a.doubts.mayEnd(now) {
		a.unshown.settle()
	}
	a.noteBestEffort(r.decision.BestEffort, now)
	switch {
	case len(r.decision.Attempts) > 0:
		a.record(r.decision)
	case r.hold != decide.HoldNone:
		a.holdWith(r.decision, r.hold, r.decision.Detail)
	case r.unheard != nil:
		a.restDoubt(&r, now)
		a.holdWith(r.decision, decide.HoldUnheard, r.decision.Detail)
	case r.slots.held() != "":
		a.holdWith(r.decision, decide.HoldNoSlot, r.slots.held())
	}
}

// bookReport books who is in flight by what became of a plan.
func (a *Agent) bookReport(r *report, now time.Time) {
	if accepted := r.decision.Victim(); accepted != nil && !accepted.Escalates {
		a.book(r.decision, accepted, r.expected, now)
	}
	if gone := r.decision.Gone(); gone != nil {
		a.bookGone(gone, r.expected, now)
	}
	if r.foreign != nil {
		a.bookForeign(r.foreign, r.expected, now)
	}
}
