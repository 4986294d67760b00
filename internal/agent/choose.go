package agent

import (
	"context"
	"fmt"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/execute"
	"github.com/evictd/evictd/internal/incident"
	"github.com/evictd/evictd/internal/measure"
	"github.com/evictd/evictd/internal/nodepods"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
)

// choose decides who should go for a pressure. A hold other than HoldNone says
// that nobody should, and why.
func (a *Agent) choose(ctx context.Context, p pressure.Pressure) (execute.Plan, decide.Hold, string) {
	made := a.newPlan(p)
	d := &made.Decision
	a.measurer.FollowImages(ctx, &p, d.Incident, a.options.Pods.List)
	if hold, detail := a.mayDecide(&p); hold != decide.HoldNone {
		return made, hold, detail
	}
	if hold, detail := a.comesBack(&p); hold != decide.HoldNone {
		return made, hold, detail
	}
	pods := a.options.Pods.List()
	a.victims.ObserveEnding(pods, p.SampleTime)
	overdue := a.overdue(&p, pods)
	limit, reached := a.cooldown.Node(p.SampleTime)
	if reached && overdue == nil {
		return made, decide.HoldLimited, limit.Detail
	}
	query := a.queryOf(&p, pods)
	if hold, detail := a.measurer.StalledByItself(&query); hold != decide.HoldNone {
		return made, hold, detail
	}
	uses, hold, detail := a.measurer.Uses(ctx, &query)
	if hold != decide.HoldNone {
		return made, hold, detail
	}
	d.Breakdown, d.Notes = measure.Breakdown(&p, uses), uses.Notes
	a.bookLeaving(&p, pods, uses)
	d.OnTheirWay, d.NotReliedOn = a.victims.All(), a.notReliedOn(&p)
	if hold, detail = a.noPodNeeded(&p, uses, d); hold != decide.HoldNone {
		return made, hold, detail
	}
	made.InDoubt, made.Others = a.stillInDoubt(d)
	if made.Escalation = a.escalation(&p, overdue, uses); made.Escalation != nil {
		hold, detail = a.lookAgain(&p)
		return made, hold, detail
	}
	if reached {
		return made, decide.HoldLimited, limit.Detail
	}
	d.Ranking = rank.Order(decide.RankedBy(p.Threshold.Signal), a.facts(&p, pods, uses), a.policy.Rules)
	made.Candidates, hold, detail = a.askable(d, uses)
	if hold != decide.HoldNone {
		return made, hold, detail
	}
	made.BypassPDB = a.mayBypassPDB(&p)
	if a.supply(uses).Judges() {
		made.Required = a.required(&p)
	}
	hold, detail = a.lookAgain(&p)
	return made, hold, detail
}

// queryOf asks what the pods use, for a decision about the pressure. A measurement of a disk
// must be newer than the end of evictd's last victim; others end all the time, on a node of
// short jobs.
func (a *Agent) queryOf(p *pressure.Pressure, pods []*nodepods.Pod) measure.Query {
	return measure.Query{
		Pressure: p, Pods: pods, Incident: a.incidentOf(p), NewerThan: a.victims.LastOwnEnd(), Enough: a.required(p),
	}
}

// facts joins what the API server and the node know of each pod.
func (a *Agent) facts(p *pressure.Pressure, pods []*nodepods.Pod, uses *decide.Uses) []rank.Pod {
	facts := uses.Facts(p.Threshold.Signal, pods, a.options.Self)
	for i := range facts {
		if a.victims.Booked(facts[i].UID) || a.victims.Simulated().Has(facts[i].UID) {
			facts[i].Marks.Terminating = true // accepted, and the watch has not told yet, or it never will
		}
	}
	return facts
}

// noPodNeeded holds a decision while what is missing comes back without another pod: from
// what is in flight, or from images.
func (a *Agent) noPodNeeded(p *pressure.Pressure, uses *decide.Uses, d *decide.Decision) (decide.Hold, string) {
	if hold, detail := a.onItsWay(p); hold != decide.HoldNone {
		return hold, detail
	}
	hold, detail, note := a.measurer.ImagesFirst(p, uses, a.shortage(p).Missing)
	if note != "" {
		d.Notes = append(d.Notes, note)
	}
	return hold, detail
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
	if end := a.lastEnd(p.Threshold.Signal); !end.IsZero() && !now.After(end.Add(measure.ReachBack(p))) {
		return decide.HoldSettling, ""
	}
	if why, waits := a.cooldown.Jitter(a.waitsIn(p), now); waits {
		return decide.HoldJitter, why.Detail
	}
	if why, waits := a.cooldown.Server(now); waits {
		return decide.HoldBackingOff, why.Detail
	}
	if open := a.doubts.of(incident.ResourceOf(p.Threshold.Signal, p.Observed)); open != nil && now.Before(open.rests) {
		return decide.HoldUnheard, open.Undecided()
	}
	return a.awaitStart(p)
}

// askable leaves out the candidates that were refused a short while ago, those whose
// owner has lost enough pods and those whose end would not help.
func (a *Agent) askable(d *decide.Decision, uses *decide.Uses) ([]execute.Candidate, decide.Hold, string) {
	if len(d.Ranking.Candidates) == 0 && len(uses.Incomplete) > 0 {
		return nil, decide.HoldUsageUnknown, a.supply(uses).NotKnownToSuffice(d.Pressure.Threshold.Signal, a.required(&d.Pressure))
	}
	if len(d.Ranking.Candidates) == 0 {
		return nil, decide.HoldNoCandidates, nobody(&d.Ranking) + decide.WouldSuffice(d, a.shortage(&d.Pressure).Missing)
	}
	if hold, detail := a.withholdWithinRequests(d); hold != decide.HoldNone {
		return nil, hold, detail
	}
	if hold, detail := a.withholdWaiting(d); hold != decide.HoldNone {
		return nil, hold, detail
	}
	short := a.shortage(&d.Pressure)
	if hold, detail := a.supply(uses).Withhold(d, &short, a.policy.WithinRequests); hold != decide.HoldNone {
		return nil, hold, detail
	}
	candidates := make([]execute.Candidate, 0, len(d.Ranking.Candidates))
	in, now := a.waitsIn(&d.Pressure), d.Pressure.SampleTime
	for _, e := range d.Ranking.Candidates {
		why, refused := a.cooldown.Pod(e.Pod, in, now)
		expected := uses.ByUID[e.Pod.UID].Expected
		candidates = append(candidates, execute.Candidate{
			Entry: e, Expected: expected, Reclaim: decide.ReclaimOf(d.Pressure.Threshold.Signal, expected),
			BlockedByPDB: refused, PDB: why.PDB,
			SamePDB: a.cooldown.SharedPDB(e.Pod, now),
		})
	}
	return candidates, decide.HoldNone, ""
}

// supply returns what the pods' ends should give back.
func (a *Agent) supply(uses *decide.Uses) *decide.Supply {
	return &decide.Supply{Uses: uses, Least: a.policy.MinimumRelease}
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
	seen := a.options.Sampler.Sample(a.options.Clock.Now())
	again := a.victims.Simulated().AddTo(&seen)
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
