package agent

import (
	"context"
	"fmt"
	"time"

	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
)

// plan is a decision that is ready to be carried out: whom to ask for, in order.
type plan struct {
	decision   *Decision
	candidates []candidate
	// unheard is looked at before anybody is asked for; nil when there is nothing.
	unheard *unheard
	brake   *brake
}

// candidate is one pod that may be asked for, with what its end should free.
type candidate struct {
	entry    rank.Entry
	expected map[string]int64
}

// choose decides who should go for a pressure. A hold other than HoldNone says
// that nobody should, and why.
func (a *Agent) choose(ctx context.Context, p pressure.Pressure) (plan, Hold, string) {
	made := plan{decision: a.newDecision(p), brake: &brake{}}
	if hold, detail := a.mayDecide(&p); hold != HoldNone {
		return made, hold, detail
	}
	pods := a.options.Pods.List()
	if hold, detail := a.stalledByItself(&p, pods); hold != HoldNone {
		return made, hold, detail
	}
	uses, hold, detail := a.measure(ctx, &p, pods)
	if hold != HoldNone {
		return made, hold, detail
	}
	a.bookLeaving(&p, pods, uses)
	made.decision.OnTheirWay = a.ledger.OnTheirWay()
	if hold, detail = a.onItsWay(&p); hold != HoldNone {
		return made, hold, detail
	}
	made.decision.Ranking = rank.Order(resourceOf(p.Threshold.Signal), a.facts(&p, pods, uses), a.policy.Rules)
	made.candidates, hold, detail = a.askable(made.decision, uses, p.SampleTime)
	if hold != HoldNone {
		return made, hold, detail
	}
	made.unheard = a.stillUnheard()
	hold, detail = a.lookAgain(&p)
	return made, hold, detail
}

// mayDecide checks what must be true before anybody is looked at.
func (a *Agent) mayDecide(p *pressure.Pressure) (Hold, string) {
	now := p.SampleTime
	if !a.options.Pods.Synced() {
		return HoldPodsUnsynced, "the API server has not sent the node's pods yet"
	}
	if end := a.ledger.LastEnd(); !end.IsZero() && !now.After(end.Add(reachBack(p))) {
		return HoldSettling, ""
	}
	if until := a.backoff.ServerWaits(now); !until.IsZero() {
		return HoldBackingOff, fmt.Sprintf("the API server is not asked for another %v", until.Sub(now).Round(time.Second))
	}
	if reached := a.limiter.Node(now); reached != "" {
		return HoldLimited, reached
	}
	return HoldNone, ""
}

// askable leaves out the candidates that were refused a short while ago or whose
// owner has lost enough pods.
func (a *Agent) askable(d *Decision, uses *uses, now time.Time) ([]candidate, Hold, string) {
	if len(d.Ranking.Candidates) == 0 {
		return nil, HoldNoCandidates, nobody(&d.Ranking)
	}
	var candidates []candidate
	waiting, limited := 0, 0
	for _, e := range d.Ranking.Candidates {
		if _, waits := a.backoff.Waits(e.Pod.UID, now); waits {
			waiting++
			continue
		}
		if !a.limiter.Owner(e.Pod.OwnerUID, now) {
			limited++
			continue
		}
		candidates = append(candidates, candidate{entry: e, expected: uses.byUID[e.Pod.UID].expected})
	}
	switch {
	case len(candidates) > 0:
		return candidates, HoldNone, ""
	case limited > 0:
		return nil, HoldLimited, fmt.Sprintf("%d candidates of owners that reached limits.perOwnerPerHour, %d refused a short while ago", limited, waiting)
	default:
		return nil, HoldBackingOff, fmt.Sprintf("all %d candidates were refused a short while ago", waiting)
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
func (a *Agent) lookAgain(p *pressure.Pressure) (Hold, string) {
	again := a.options.Sampler.Sample(time.Now())
	if fault := a.incomplete(&again); fault != "" {
		return HoldIncomplete, fault
	}
	if !p.HoldsIn(&again) {
		return HoldRecovered, ""
	}
	now := *p
	now.Observed = again.Of(p.Threshold.Signal)
	return a.onItsWay(&now)
}

// incomplete names a signal that a threshold asks for and that could not be read;
// "" when there is none. Nobody is evicted from such a sample.
func (a *Agent) incomplete(sample *pressure.Sample) string {
	for i := range a.policy.Thresholds {
		signal := a.policy.Thresholds[i].Signal
		if seen := sample.Of(signal); seen.State == pressure.Unknown {
			return fmt.Sprintf("%v could not be read: %v", signal, seen.Err)
		}
	}
	return ""
}
