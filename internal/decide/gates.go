package decide

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/evictd/evictd/internal/nodepods"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
)

// A gate says why no pod is evicted in a situation; [HoldNone] lets the decision pass. It may
// withhold candidates.
type gate func(s *Situation, d *Decision) (Hold, string)

// holdIf returns a hold, where it is one.
func holdIf(is bool, why Hold, detail string) (Hold, string) {
	if !is {
		return HoldNone, ""
	}
	return why, detail
}

// passes lets the decision pass a gate, with a note.
func (d *Decision) passes(note string) (Hold, string) {
	d.Notes = append(d.Notes, note)
	return HoldNone, ""
}

// pass runs gates in their order; the first that holds decides. It reports whether none did.
func (p *Plan) pass(s *Situation, gates ...gate) bool {
	for _, ask := range gates {
		if p.Decision.Hold, p.Decision.Detail = ask(s, &p.Decision); p.Held() {
			return false
		}
	}
	return true
}

// BeforeMeasuring decides by what is known before the pods are measured: whether there is a reason to
// wait that needs no measurement. Otherwise its plan, which has no candidates, does not hold.
func BeforeMeasuring(s *Situation) Plan {
	plan := s.newPlan()
	plan.pass(s, incompleteReading, recovered, podsKnown, newerSample, stalledWithinOwnLimits, serverBackOff,
		requestInDoubt, unknownVictims, nodeLimit, softJitter)
	return plan
}

// Decide returns what should be done in a situation in which nothing held before, once the pods are measured.
func Decide(s *Situation) Plan {
	plan := s.newPlan()
	if !plan.pass(s, usesKnown) {
		return plan
	}
	d := &plan.Decision
	if d.Breakdown = s.Uses.Breakdown; !plan.pass(s, reclaimInFlight, imagesFirst) {
		return plan
	}
	plan.InDoubt, plan.Others = s.InDoubt, s.Others
	if plan.Candidates = s.escalation(); plan.Candidates != nil || !plan.pass(s, nodeLimit) {
		return plan
	}
	d.Ranking = rank.Order(RankedBy(s.Pressure.Threshold.Signal), s.Facts(), s.Policy.Rules)
	if !plan.pass(s, candidates, withinRequests, spared, cooldowns, ownersLimit, sufficient) {
		return plan
	}
	plan.Candidates, plan.BypassPDB = s.candidatesOf(d), s.mayBypassPDB()
	if !s.anyHelps() {
		plan.Required = s.Required()
	}
	return plan
}

// recovered holds a decision where the threshold is not met any more, also where its minimum reclaim is missing:
// it says how long a threshold counts as met, and no pod is evicted for it alone.
func recovered(s *Situation, _ *Decision) (Hold, string) {
	return holdIf(!s.Pressure.MetIn(s.Sample), HoldRecovered, "the threshold is reached, and no pod is evicted for its minimum reclaim alone")
}

// unknownVictims waits for what a victim of a process before may still give back, of which nothing is
// known, unless it would be too late for another then. A disk that is full gets no worse.
func unknownVictims(s *Situation, _ *Decision) (Hold, string) {
	wait := s.UnknownUntil.Sub(s.Pressure.SampleTime)
	full := s.Pressure.Threshold.Signal.OnDisk() && s.Pressure.Observed.Available <= 0
	if wait <= 0 || !full && TooLate(&s.Pressure, wait) {
		return HoldNone, ""
	}
	return HoldReclaimInProgress, fmt.Sprintf("evictd does not know which pods ended before it started, and what one held may come back: waiting %v at most",
		wait.Round(100*time.Millisecond))
}

// podsKnown holds a decision while there is no list of the pods, or it is too old: a pod that was created
// since is not in it, and its cgroup would be mistaken for that of a pod that the API server has deleted.
func podsKnown(s *Situation, _ *Decision) (Hold, string) {
	switch {
	case s.Unsynced:
		return HoldPodsNotSynced, "the API server has not sent the node's pods yet"
	case s.Stale != nil:
		return HoldPodsStale, s.Stale.Error()
	}
	return HoldNone, ""
}

func softJitter(s *Situation, _ *Decision) (Hold, string) {
	why, waits := s.Cooldown.Jitter(s)
	return holdIf(waits, HoldSoftJitter, why.Detail)
}

func serverBackOff(s *Situation, _ *Decision) (Hold, string) {
	why, waits := s.Cooldown.Server(s.Pressure.SampleTime)
	return holdIf(waits, HoldBackingOff, why.Detail)
}

// requestInDoubt waits while the pod of a request in doubt was read a moment ago and that did not
// resolve the doubt.
func requestInDoubt(s *Situation, _ *Decision) (Hold, string) {
	if s.InDoubt != nil && s.Pressure.SampleTime.Before(s.InDoubt.Rests) {
		return HoldRequestInDoubt, s.InDoubt.Undecided()
	}
	return HoldNone, ""
}

// nodeLimit holds a decision while the limit of the node is reached. A victim of evictd's own that is to end
// sooner counts as no new eviction: whether it is, is known once the pods are measured.
func nodeLimit(s *Situation, _ *Decision) (Hold, string) {
	limit, reached := s.Cooldown.Node(s.Pressure.SampleTime)
	return holdIf(reached && (s.Uses != nil || s.overdue() == nil), HoldLimitReached, limit.Detail)
}

func candidates(s *Situation, d *Decision) (Hold, string) {
	switch {
	case len(d.Ranking.Candidates) > 0:
		return HoldNone, ""
	case len(s.Uses.Incomplete) > 0:
		return HoldUsageUnknown, s.Uses.notKnownToSuffice(s.Pressure.Threshold.Signal, s.Required())
	default:
		return HoldNoCandidates, fmt.Sprintf("each of the %d pods on the node is protected, or terminates and is too small to suffice%s",
			len(d.Ranking.Protected), wouldSuffice(d, s.shortage().Missing))
	}
}

// spared withholds for a soft threshold the pods that ask not to be disrupted, or are too young. Under a hard one
// they are candidates like others.
func spared(s *Situation, d *Decision) (Hold, string) {
	if s.Pressure.Threshold.Hard {
		return HoldNone, ""
	}
	spared := s.Policy.Rules.Spare(&d.Ranking, s.Pressure.SampleTime)
	return holdIf(len(d.Ranking.Candidates) == 0, HoldNoCandidates, fmt.Sprintf(
		"all %d pods that could be evicted are spared for a soft threshold, by an annotation or protect.minAge: a hard threshold makes them candidates", spared))
}

// mayBypassPDB reports whether the decision may bypass a PDB.
func (s *Situation) mayBypassPDB() bool {
	_, waits := s.Cooldown.Bypass(s.Pressure.SampleTime)
	return s.Policy.BestEffort && s.Pressure.Threshold.Hard && !waits
}

// cooldowns withholds the pods that may not be evicted for now. Those that only a PDB blocks stay
// where one may be bypassed.
func cooldowns(s *Situation, d *Decision) (Hold, string) {
	bypass, refused := s.mayBypassPDB(), 0
	d.Ranking.Withhold(func(e *rank.Entry) rank.Protection {
		why, waits := s.Cooldown.Pod(s, e.Pod, bypass)
		if !waits {
			return rank.NotProtected
		}
		refused++
		e.Detail = why.Detail
		return rank.ProtectedBackingOff
	})
	return holdIf(len(d.Ranking.Candidates) == 0, HoldBackingOff, fmt.Sprintf("all %d candidates were refused a short while ago", refused))
}

// ownersLimit holds a decision where the owner of the first candidate has reached its limit: a limit never names
// another pod. Those that come back and leak again would otherwise have their neighbours evicted for them.
func ownersLimit(s *Situation, d *Decision) (Hold, string) {
	first := d.Ranking.Candidates[0].Pod
	why, waits := s.Cooldown.Owner(s, first)
	return holdIf(waits, HoldLimitReached, "no pod goes in place of "+first.Key()+": "+why.Detail)
}

// candidatesOf returns the candidates of a decision, in order, up to the first whose owner has reached its limit.
func (s *Situation) candidatesOf(d *Decision) []Candidate {
	all := make([]Candidate, 0, len(d.Ranking.Candidates))
	for _, e := range d.Ranking.Candidates {
		if _, is := s.Cooldown.Owner(s, e.Pod); is {
			break
		}
		why, refused := s.Cooldown.Pod(s, e.Pod, false)
		all = append(all, Candidate{
			Attempt:  Attempt{Entry: e, GraceSeconds: s.Policy.grace(s.Pressure.Threshold.Hard, e.Pod)},
			Expected: s.Uses.ByUID[e.Pod.UID].Expected, BlockedByPDB: refused, PDB: why.PDB,
		})
	}
	return all
}

// incompleteReading names a signal that the decision needs and that could not be read: no pod is evicted
// from such a sample. A decision needs the signals of the same resource that have a threshold: a filesystem
// that hangs does not affect decisions about memory. Of a disk it needs its own signal alone, because the
// device of a filesystem that does not respond is not known.
func incompleteReading(s *Situation, _ *Decision) (Hold, string) {
	about := s.Pressure.Threshold.Signal
	for i := range s.Policy.Thresholds {
		signal := s.Policy.Thresholds[i].Signal
		needed := signal == about || !about.OnDisk() && signal.Kind() == about.Kind()
		if seen := s.Sample.Of(signal); needed && seen.State == pressure.Unknown {
			return HoldIncompleteReading, fmt.Sprintf("%v could not be read: %v", signal, seen.Err)
		}
	}
	return HoldNone, ""
}

// Under hard pressure a victim of evictd's own that is overdue gets a shorter grace period before
// another pod is evicted: docs/adr/0023-shorten-the-grace-of-an-overdue-victim.md.

// overdue returns a victim that should end sooner, the one that was accepted first: evictd evicted it, it
// is no longer relied on, and it still holds something of what is missing. Nil where there is none.
func (s *Situation) overdue() *nodepods.Pod {
	p := &s.Pressure
	if !p.Threshold.Hard || s.Policy.OverdueGrace <= 0 {
		return nil
	}
	for i := range s.InFlight {
		b := &s.InFlight[i]
		holds := s.Uses == nil || b.Expected.At(p.Threshold.Signal) > 0 // before the pods are measured it may hold something
		if !holds || !b.MayEscalate() || b.DryRun != s.Policy.DryRun || b.ReliedOn(p) {
			continue
		}
		at := slices.IndexFunc(s.Pods, func(pod *nodepods.Pod) bool { return pod.UID == b.UID })
		// What it was granted is the API server's figure, which is less than the booked one when another client
		// has shortened it. The booked one counts until the watch reports it, and in a dry run.
		if at >= 0 && *cmp.Or(s.Pods[at].DeletionGraceSeconds, &b.GraceSeconds) > s.Policy.overdueGrace() {
			return s.Pods[at]
		}
	}
	return nil
}

// escalation returns the request to end a victim sooner; nil without a victim, or where
// it is not known what it still uses.
func (s *Situation) escalation() []Candidate {
	victim := s.overdue()
	if victim == nil || !s.Uses.ByUID[victim.UID].Known {
		return nil
	}
	signal, seconds := s.Pressure.Threshold.Signal, s.Policy.overdueGrace()
	facts := s.Uses.Facts(signal, []*nodepods.Pod{victim})
	facts[0].Terminating = true // no candidate: it has no place in the ranking
	entry := rank.Order(RankedBy(signal), facts, rank.Rules{}).Protected[0]
	return []Candidate{{Attempt: Attempt{Entry: entry, GraceSeconds: &seconds, Escalates: true}}}
}

// Obsolete says why a plan that is being carried out should be canceled by a newer sample; "" where
// it should not. Urgent says that it cannot wait: a hard pressure, of any signal, began after a soft
// decision was made. That can wait neither for the other requests of the plan nor for a soft grace period.
// A hard pressure from before the decision was decided first.
func Obsolete(d *Decision, policy *Policy, sample *pressure.Sample, verdict *pressure.Verdict) (why string, urgent bool) {
	if _, fault := incompleteReading(&Situation{Pressure: d.Pressure, Sample: sample, Policy: policy}, d); fault != "" {
		return fault, false
	}
	if !d.Pressure.MetIn(sample) {
		return "recovered meanwhile", false
	}
	for i := range verdict.Pressures {
		if met := &verdict.Pressures[i]; !d.Pressure.Threshold.Hard && met.Threshold.Hard && met.Since.After(d.Time) {
			return fmt.Sprintf("the hard threshold of %v was met meanwhile", met.Threshold.Signal), true
		}
	}
	return "", false
}
