package agent

import (
	"fmt"

	"github.com/evictd/evictd/internal/cooldown"
	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/execute"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
)

// waitsIn returns what the cooldown needs to know of a pressure.
func (a *Agent) waitsIn(p *pressure.Pressure) cooldown.Pressure {
	return cooldown.Pressure{
		Signal: p.Threshold.Signal, Incident: a.incidentOf(p), Hard: p.Threshold.Hard, GraceCut: p.GraceCut,
	}
}

// drawJitter decides how long the first soft eviction of an incident waits, once the pods are
// known: many nodes may come to know theirs at the same moment.
func (a *Agent) drawJitter(p *pressure.Pressure) {
	if a.options.Pods.Synced() && a.podsStale() == nil {
		a.cooldown.Draw(a.waitsIn(p), p.SampleTime)
	}
}

// mayBypassPDB reports whether a decision about the pressure may bypass a PDB.
func (a *Agent) mayBypassPDB(p *pressure.Pressure) bool {
	_, waits := a.cooldown.Bypass(p.SampleTime)
	return a.policy.BestEffort && p.Threshold.Hard && !waits
}

// withholdWaiting withholds the pods that may not be evicted for now. Those that only a PDB
// blocks stay where one may be bypassed.
func (a *Agent) withholdWaiting(d *decide.Decision) (decide.Hold, string) {
	in, now := a.waitsIn(&d.Pressure), d.Pressure.SampleTime
	in.BypassPDB = a.mayBypassPDB(&d.Pressure)
	waiting, last := [cooldown.KindCount]int{}, [cooldown.KindCount]string{}
	d.Ranking.Withhold(func(e *rank.Entry) rank.Protection {
		why, waits := a.cooldown.Pod(e.Pod, in, now)
		if !waits {
			return rank.NotProtected
		}
		waiting[why.Kind]++
		e.Detail, last[why.Kind] = why.Detail, e.Pod.Key()+": "+why.Detail
		return protectionOf(why.Kind)
	})
	if len(d.Ranking.Candidates) > 0 {
		return decide.HoldNone, ""
	}
	return holdFor(&waiting, &last)
}

// protectionOf returns how a pod that waits appears in the ranking.
func protectionOf(kind cooldown.Kind) rank.Protection {
	switch kind {
	case cooldown.Refused:
		return rank.ProtectedBackingOff
	case cooldown.NoPermit:
		return rank.ProtectedSlotless
	default:
		return rank.ProtectedHeldOff
	}
}

// holdFor says why no pod is evicted while all candidates wait: how many of each kind do, and
// the last of each.
func holdFor(waiting *[cooldown.KindCount]int, last *[cooldown.KindCount]string) (decide.Hold, string) {
	refused, backOff, limited := waiting[cooldown.Refused], waiting[cooldown.OwnerBackOff], waiting[cooldown.OwnerLimit]
	switch {
	case waiting[cooldown.NoPermit] > 0:
		return decide.HoldNoSlot, "the last of them: " + last[cooldown.NoPermit]
	case backOff > 0:
		return decide.HoldOwners, fmt.Sprintf("%d candidates of owners that are held off, %d of owners that reached limits.perOwnerPerHour, %d refused a short while ago; %s",
			backOff, limited, refused, last[cooldown.OwnerBackOff])
	case limited > 0:
		return decide.HoldLimited, fmt.Sprintf("%d candidates of owners that reached limits.perOwnerPerHour, %d refused a short while ago; %s",
			limited, refused, last[cooldown.OwnerLimit])
	default:
		return decide.HoldBackingOff, fmt.Sprintf("all %d candidates were refused a short while ago", refused)
	}
}

// learnWaits hands to the cooldown what became of a plan. A delete without the right to it says
// nothing of its pod.
func (a *Agent) learnWaits(d *decide.Decision, r *execute.Report) cooldown.Report {
	learnt := cooldown.Report{
		Signal: d.Pressure.Threshold.Signal, Incident: a.incidentOf(&d.Pressure), Decided: d.Time,
		Stale: r.Stale, Unread: r.Unread, NoPermit: r.NoPermit, Unknown: r.PermitsUnknown,
		BypassFailed: d.BestEffort != decide.BestEffortNone && d.BestEffort != decide.BestEffortDeleted,
	}
	for _, shared := range r.Shared {
		learnt.Shared = append(learnt.Shared, cooldown.Answer(shared))
	}
	for i := range d.Attempts {
		if attempt := &d.Attempts[i]; !attempt.Result.NoRight || attempt.Past == nil {
			learnt.Answers = append(learnt.Answers, cooldown.Answer{Pod: attempt.Entry.Pod, Result: attempt.Result})
		}
	}
	return learnt
}

// noneLeft reports whether a plan was made for which no candidate was left: those that were
// tried in its pressure may be tried again.
func noneLeft(p *execute.Plan) bool {
	ranking := &p.Decision.Ranking
	return len(p.Candidates) == 0 && len(ranking.Candidates)+len(ranking.Protected) > 0
}
