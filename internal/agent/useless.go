package agent

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/wording"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
)

// Two rules keep innocents from going for nothing: a process of the host that leaks, or
// a pod behind a budget, is not cured by the end of its neighbours. The danger is the
// opposite fault, to hold back an eviction that would have helped. So:
//
//   - All candidates together must reach the line, beside what is in flight, and no more:
//     when a line is crossed almost nothing is missing. A soft threshold that is held back
//     is followed by the hard one, whose line has then just been crossed. Once the line is
//     reached they must reach the minimum share of what is missing to the target, of a disk
//     all of it.
//   - The minimum share of one candidate is of what is missing to the target: evictd goes on
//     until that is covered, and of what is missing to the line, a few KiB under a slow
//     leak, any pod returns its share. What was seen since the start is no evidence.
//   - Whatever is not known might be everything: with one such candidate there is no
//     telling that all together do not suffice, and it is never too little itself. Of a
//     stall it is never known.
//   - A small pod is passed over only while the larger ones among those that would go
//     anyway suffice. So the rule makes no pod go that would have stayed without it, not
//     a pod of a higher priority in place of twenty small ones either; and where many
//     small ones make up what is missing, they go.
//   - Nothing is remembered. Each tick judges anew, by what is missing and who is left
//     then: a refused leaker comes back when its back-off ends.
//
// What it does not see, on cgroup v1 and before Linux 5.18, is a pod's kernel memory
// (sockets, page tables): where pods hold much of it, 0% switches both rules off.

// release is what a pod's end should return.
type release struct {
	amount int64 // in the signal's unit
	known  bool
}

// releaseOf returns what a pod's end should return of the signal. For a stall the
// books only say who is waited for, not how much of it would end.
func releaseOf(signal pressure.Signal, expected map[string]int64) release {
	amount, known := expected[signal.String()]
	return release{amount: amount, known: known && signal.Reclaim() != pressure.ReclaimUnknown}
}

// suffice reports whether the candidates could return what is missing, for all that is
// known.
func suffice(missing int64, candidates []release) bool {
	for _, c := range candidates {
		if missing -= c.amount; !c.known || missing <= 0 {
			return true
		}
	}
	return missing <= 0
}

// largerSuffice reports whether, of the candidates that would go in their order until
// nothing is missing, those that return at least so much would do alone.
func largerSuffice(missing, atLeast int64, candidates []release) bool {
	all, larger := int64(0), int64(0)
	for _, c := range candidates {
		if all >= missing {
			break
		}
		if !c.known {
			return false // it might suffice alone, or not at all
		}
		all += c.amount
		if c.amount >= atLeast {
			larger += c.amount
		}
	}
	return larger >= missing
}

// withholdUseless holds a decision when all candidates together could not give back what
// is required, and otherwise withholds those that would give back too little of what is
// missing. Where not all is known of each pod, only candidates that suffice may go,
// whatever the rules.
func (a *Agent) withholdUseless(d *decide.Decision, uses *uses) (decide.Hold, string) {
	s := a.shortage(&d.Pressure)
	if s.missing == 0 || !a.judges(uses) {
		return decide.HoldNone, ""
	}
	signal, least := d.Pressure.Threshold.Signal, a.policy.MinimumRelease
	releases := make([]release, 0, len(d.Ranking.Candidates))
	for i := range d.Ranking.Candidates {
		releases = append(releases, releaseOf(signal, uses.byUID[d.Ranking.Candidates[i].Pod.UID].expected))
	}
	required := s.required(&d.Pressure, least)
	if !suffice(required, releases) {
		if len(uses.incomplete) > 0 {
			return decide.HoldUsageUnknown, notKnownToSuffice(signal, required, uses.incomplete)
		}
		return decide.HoldUseless, insufficient(d, &s, releases, least)
	}
	withholdSmall(d, &s, releases, a.notYet(d, uses), least)
	if len(d.Ranking.Candidates) == 0 {
		return decide.HoldUseless, allSmall(d, &s, releases, least)
	}
	return decide.HoldNone, ""
}

// notYet returns what the pods within their requests would give back, the largest first,
// where one of them goes once the signal runs out.
func (a *Agent) notYet(d *decide.Decision, uses *uses) []release {
	if a.policy.WithinRequests == WithinRequestsAlways {
		return nil
	}
	var releases []release
	for i := range d.Ranking.Protected {
		if e := &d.Ranking.Protected[i]; e.Protection == rank.ProtectedWithinRequests {
			releases = append(releases, releaseOf(d.Pressure.Threshold.Signal, uses.byUID[e.Pod.UID].expected))
		}
	}
	slices.SortFunc(releases, func(a, b release) int { return cmp.Compare(b.amount, a.amount) })
	return releases
}

// withholdSmall withholds the candidates that would give back less than the minimum share
// of what is missing to the target, where the larger ones do without them: reach the
// target, or, where all together cannot, what is required. Later are the pods whose turn
// comes after them: where one of those is what uses the signal up, small ones in front of it
// would go one by one until then.
func withholdSmall(d *decide.Decision, s *shortage, releases, later []release, least pressure.Quantity) {
	signal, goal, atLeast := d.Pressure.Threshold.Signal, s.missing, least.Of(s.missing)
	all := slices.Concat(releases, later)
	if !suffice(goal, all) {
		goal = max(1, s.required(&d.Pressure, least))
	}
	if !largerSuffice(goal, atLeast, all) {
		return
	}
	d.Ranking.Withhold(func(e *rank.Entry) rank.Protection {
		r := releases[e.Position-1]
		if !r.known || r.amount >= atLeast {
			return rank.NotProtected
		}
		e.Detail = fmt.Sprintf("%s of the %s that are missing, limits.minimumRelease is %v",
			wording.Amount(signal, r.amount), wording.Amount(signal, s.missing), least)
		return rank.ProtectedUseless
	})
}

// judges reports whether anybody is held back because the candidates could not return what
// is needed.
func (a *Agent) judges(uses *uses) bool {
	return !a.policy.MinimumRelease.IsZero() || len(uses.incomplete) > 0
}

// notKnownToSuffice says of whom not all is known, and that the others do not do.
func notKnownToSuffice(signal pressure.Signal, needed int64, incomplete []unmeasured) string {
	const named = 3
	var names []string
	for _, u := range incomplete[:min(named, len(incomplete))] {
		names = append(names, u.pod)
	}
	if len(incomplete) > named {
		names = append(names, "...")
	}
	// That rights are missing is worth more than that somebody has not started.
	example := incomplete[max(0, slices.IndexFunc(incomplete, func(u unmeasured) bool { return u.told }))]
	return fmt.Sprintf("the candidates are known to hold less than the %s that are needed, and of %d pods not all could be measured: %s; of %s: %s",
		wording.Amount(signal, needed), len(incomplete), strings.Join(names, ", "), example.pod, example.why)
}

// filledElsewhere says how little of a disk is the candidates'.
func filledElsewhere(p *pressure.Pressure, releases []release, least pressure.Quantity) string {
	signal := p.Threshold.Signal
	return fmt.Sprintf("all %d candidates together hold %s, less than limits.minimumRelease (%v) of the threshold's %s: look at %s",
		len(releases), wording.Amount(signal, total(releases)), least, wording.Amount(signal, p.Line), elsewhere(signal))
}

func total(releases []release) int64 {
	all := int64(0)
	for _, r := range releases {
		all += r.amount
	}
	return all
}

// insufficient says how far the candidates would not suffice, and where else to look.
func insufficient(d *decide.Decision, s *shortage, releases []release, least pressure.Quantity) string {
	p := &d.Pressure
	signal, missing, share := p.Threshold.Signal, s.toReach(p.Threshold.Signal), ""
	switch {
	case signal.OnDisk() && suffice(missing, releases):
		return filledElsewhere(p, releases, least)
	case missing == 0:
		missing, share = s.missing, fmt.Sprintf(" to %s, limits.minimumRelease is %v", wording.Amount(signal, p.Target), least)
	}
	all := total(releases)
	text := fmt.Sprintf("all %d candidates together could return %s of the %s that are missing%s%s: look at %s",
		len(releases), wording.Amount(signal, all), wording.Amount(signal, missing), wording.Apart(signal, all, missing), share, elsewhere(signal))
	return text + wouldSuffice(d, missing)
}

// allSmall says that only small candidates are left while a larger pod's turn has not come.
func allSmall(d *decide.Decision, s *shortage, releases []release, least pressure.Quantity) string {
	signal := d.Pressure.Threshold.Signal
	return fmt.Sprintf("each of the %d candidates would return less than limits.minimumRelease (%v) of the %s that are missing, and larger pods go first when %s runs out",
		len(releases), least, wording.Amount(signal, s.missing), signal) + wouldSuffice(d, s.missing)
}

// wouldSuffice names the protected pod that would have sufficed alone, and what protects
// it: the one that uses most. "" when there is none, and for a stall, of which a pod's usage
// is no part.
func wouldSuffice(d *decide.Decision, missing int64) string {
	e := largest(d.Ranking.Protected)
	if e == nil || e.Pod.Usage <= missing || d.Pressure.Threshold.Signal == pressure.MemoryStall {
		return ""
	}
	return fmt.Sprintf("; %s alone uses %s and is protected: %s",
		e.Pod.Key(), wording.Amount(d.Pressure.Threshold.Signal, e.Pod.Usage), e.Protection)
}

// elsewhere says what uses up a signal besides pods.
func elsewhere(signal pressure.Signal) string {
	const onDisk = "images, hostPath volumes, files of the host and deleted files that are still open"
	return [...]string{
		pressure.MemoryKind: "processes of the host, page cache and kernel memory",
		pressure.PIDKind:    "processes of the host",
		pressure.SpaceKind:  onDisk,
		pressure.InodeKind:  onDisk,
	}[signal.Kind()]
}

// largest returns the protected pod that uses most, nil where no usage is known.
func largest(protected []rank.Entry) *rank.Entry {
	var found *rank.Entry
	for i := range protected {
		e := &protected[i]
		if e.Pod.Sampled && (found == nil || e.Pod.Usage > found.Pod.Usage) {
			found = e
		}
	}
	return found
}
