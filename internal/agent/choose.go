package agent

import (
	"context"
	"fmt"
	"time"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/incident"
	"github.com/evictd/evictd/pkg/evict"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
)

// plan is a decision that is ready to be carried out: whom to ask for, in order.
type plan struct {
	decision   *decide.Decision
	candidates []candidate
	// unheard is looked at before anybody is asked for; nil when there is nothing. Others are
	// those about other resources.
	unheard   *unheard
	others    []*unheard
	interrupt *interrupt
	// slots is what the walk knows of the brake; nil before it has begun.
	slots *slotWalk
	// bestEffort says that somebody may go past a budget, and needed what all whom budgets keep
	// must return together for that; 0 where nobody is judged by it.
	bestEffort bool
	needed     int64
	// escalation is the request to end a victim sooner; nil where there is none. Nobody
	// else is asked for then.
	escalation *decide.Attempt
}

// candidate is one pod that may be asked for, with what its end should free.
type candidate struct {
	entry    rank.Entry
	expected pressure.Amounts
	// kept says that a budget refused it: in this decision, or a short while ago, and
	// then it is not asked for again. Budget is that budget's name; "" when the answer did
	// not name it.
	kept   bool
	budget string
	// restsWith is the budget with whose other ready pods it rests; spared is the refusal of
	// another in this decision that is its own too. See sparing.go.
	restsWith string
	spared    *evict.Result
	// fresh says that its refusal is of this walk, again that it was asked for once more
	// before a delete.
	fresh, again bool
}

// choose decides who should go for a pressure. A hold other than HoldNone says
// that nobody should, and why.
func (a *Agent) choose(ctx context.Context, p pressure.Pressure) (plan, decide.Hold, string) {
	made := plan{decision: a.newDecision(p), interrupt: &interrupt{}}
	a.followImages(ctx, &p)
	if hold, detail := a.mayDecide(&p); hold != decide.HoldNone {
		return made, hold, detail
	}
	if hold, detail := a.comesBack(&p); hold != decide.HoldNone {
		return made, hold, detail
	}
	pods := a.options.Pods.List()
	a.endings.note(pods, p.SampleTime)
	overdue, reached := a.overdue(&p, pods), a.limiter.Node(p.SampleTime)
	if reached != "" && overdue == nil {
		return made, decide.HoldLimited, reached
	}
	if hold, detail := a.stalledByItself(&p, pods); hold != decide.HoldNone {
		return made, hold, detail
	}
	uses, hold, detail := a.measure(ctx, &p, pods)
	if hold != decide.HoldNone {
		return made, hold, detail
	}
	made.decision.Breakdown, made.decision.Notes = breakdownOf(&p, uses), uses.notes
	a.bookLeaving(&p, pods, uses)
	made.decision.OnTheirWay, made.decision.NotReliedOn = a.ledger.OnTheirWay(), a.notReliedOn(&p)
	if hold, detail = a.noPodNeeded(&p, uses, made.decision); hold != decide.HoldNone {
		return made, hold, detail
	}
	made.unheard, made.others = a.stillUnheard(made.decision)
	if made.escalation = a.escalation(&p, overdue, uses); made.escalation != nil {
		hold, detail = a.lookAgain(&p)
		return made, hold, detail
	}
	if reached != "" {
		return made, decide.HoldLimited, reached
	}
	made.decision.Ranking = rank.Order(decide.RankedBy(p.Threshold.Signal), a.facts(&p, pods, uses), a.policy.Rules)
	made.candidates, hold, detail = a.askable(made.decision, uses)
	if hold != decide.HoldNone {
		a.roundOf(&p).refused = nil // nobody is left to ask for: who was may be asked for again
		return made, hold, detail
	}
	made.bestEffort = a.mayGoPastBudgets(&p)
	if a.supply(uses).Judges() {
		made.needed = a.required(&p)
	}
	hold, detail = a.lookAgain(&p)
	return made, hold, detail
}

// mayDecide checks what must be true before anybody is looked at.
func (a *Agent) mayDecide(p *pressure.Pressure) (decide.Hold, string) {
	now := p.SampleTime
	if !a.options.Pods.Synced() {
		return decide.HoldPodsUnsynced, "the API server has not sent the node's pods yet"
	}
	if err := a.podsStale(); err != nil {
		return decide.HoldPodsStale, err.Error()
	}
	if end := a.lastEnd(p.Threshold.Signal); !end.IsZero() && !now.After(end.Add(reachBack(p))) {
		return decide.HoldSettling, ""
	}
	if hold, detail := a.softJitter(p); hold != decide.HoldNone {
		return hold, detail
	}
	if until := a.backoff.ServerWaits(now); !until.IsZero() {
		return decide.HoldBackingOff, fmt.Sprintf("the API server is not asked for another %v", until.Sub(now).Round(time.Second))
	}
	if open := a.doubts.of(incident.ResourceOf(p.Threshold.Signal, p.Observed)); open != nil && now.Before(open.rests) {
		return decide.HoldUnheard, open.undecided()
	}
	return a.awaitStart(p)
}

// askable leaves out the candidates that were refused a short while ago, those whose
// owner has lost enough pods and those whose end would not help.
func (a *Agent) askable(d *decide.Decision, uses *uses) ([]candidate, decide.Hold, string) {
	if len(d.Ranking.Candidates) == 0 && len(uses.incomplete) > 0 {
		return nil, decide.HoldUsageUnknown, a.supply(uses).NotKnownToSuffice(d.Pressure.Threshold.Signal, a.required(&d.Pressure))
	}
	if len(d.Ranking.Candidates) == 0 {
		return nil, decide.HoldNoCandidates, nobody(&d.Ranking) + decide.WouldSuffice(d, a.shortage(&d.Pressure).Missing)
	}
	if hold, detail := a.withholdWithinRequests(d); hold != decide.HoldNone {
		return nil, hold, detail
	}
	if hold, detail := a.withholdForNow(d); hold != decide.HoldNone {
		return nil, hold, detail
	}
	if hold, detail := a.withholdSlotless(d); hold != decide.HoldNone {
		return nil, hold, detail
	}
	short := a.shortage(&d.Pressure)
	if hold, detail := a.supply(uses).Withhold(d, &short, a.policy.WithinRequests); hold != decide.HoldNone {
		return nil, hold, detail
	}
	candidates := make([]candidate, 0, len(d.Ranking.Candidates))
	for _, e := range d.Ranking.Candidates {
		_, waits := a.waits(e.Pod, &d.Pressure)
		candidates = append(candidates, candidate{
			entry: e, expected: uses.byUID[e.Pod.UID].expected, kept: waits, budget: a.backoff.Budget(e.Pod.UID),
			restsWith: a.backoff.KeptWith(refusedOf(e.Pod), d.Pressure.SampleTime),
		})
	}
	return candidates, decide.HoldNone, ""
}

// supply returns what the pods' ends should give back.
func (a *Agent) supply(uses *uses) *decide.Supply {
	return &decide.Supply{
		Expected:   func(uid string) pressure.Amounts { return uses.byUID[uid].expected },
		Incomplete: uses.incomplete, Least: a.policy.MinimumRelease,
	}
}

// withholdForNow withholds whom it would be wrong to ask for at the moment. Those whom
// only a budget keeps stay where one may be gone past.
func (a *Agent) withholdForNow(d *decide.Decision) (decide.Hold, string) {
	ranking, now := &d.Ranking, d.Pressure.SampleTime
	bestEffort := a.mayGoPastBudgets(&d.Pressure)
	waiting, heldOff, limited, went := 0, 0, 0, ""
	ranking.Withhold(func(e *rank.Entry) rank.Protection {
		if last, waits := a.waits(e.Pod, &d.Pressure); waits && (!bestEffort || !last.OfBudget()) {
			waiting++
			e.Detail = a.lastAnswer(e.Pod, last)
			return rank.ProtectedBackingOff
		}
		if until := a.holdOff.Owner(e.Pod.OwnerUID, now); until != "" {
			heldOff++
			e.Detail, went = until, e.Pod.Key()+": "+until
			return rank.ProtectedHeldOff
		}
		if reached := a.limiter.Owner(e.Pod.OwnerUID, now); reached != "" {
			limited++
			e.Detail, went = reached, e.Pod.Key()+": "+reached
			return rank.ProtectedHeldOff
		}
		return rank.NotProtected
	})
	switch {
	case len(ranking.Candidates) > 0:
		return decide.HoldNone, ""
	case heldOff > 0:
		return decide.HoldOwners, fmt.Sprintf("%d candidates of owners that are held off, %d of owners that reached limits.perOwnerPerHour, %d refused a short while ago; %s",
			heldOff, limited, waiting, went)
	case limited > 0:
		return decide.HoldLimited, fmt.Sprintf("%d candidates of owners that reached limits.perOwnerPerHour, %d refused a short while ago; %s", limited, waiting, went)
	default:
		return decide.HoldBackingOff, fmt.Sprintf("all %d candidates were refused a short while ago", waiting)
	}
}

// nobody says why there is no candidate: what is on its way out is protected too,
// and an on-call engineer must be able to tell the two apart.
func nobody(ranking *rank.Ranking) string {
	leaving := 0
	for i := range ranking.Protected {
		if ranking.Protected[i].Protection == rank.ProtectedTerminating {
			leaving++
		}
	}
	return fmt.Sprintf("%d pods on the node, %d of them on their way out and too small to suffice, the others protected",
		len(ranking.Protected), leaving)
}

// lookAgain reads the node once more, just before something irreversible. What the
// victims should still free was measured before: what they have freed since shows
// in the deficit, so less is missing by now, or as much.
func (a *Agent) lookAgain(p *pressure.Pressure) (decide.Hold, string) {
	seen := a.options.Sampler.Sample(time.Now())
	again := a.simulated.addTo(&seen)
	if fault := a.incomplete(again, p.Threshold.Signal); fault != "" {
		return decide.HoldIncomplete, fault
	}
	if !p.HoldsIn(again) {
		return decide.HoldRecovered, ""
	}
	now := *p
	now.Observed = again.Of(p.Threshold.Signal)
	return a.onItsWay(&now)
}
