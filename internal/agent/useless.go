package agent

import (
	"fmt"
	"slices"
	"strings"

	"github.com/evictd/evictd/internal/wording"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
)

// Two rules keep innocents from going for nothing: a process of the host that leaks, or
// a pod behind a budget, is not cured by the end of its neighbours. The danger is the
// opposite fault, to hold back an eviction that would have helped. So both rules take the
// modest reading of what is missing and the generous one of what could come back:
//
//   - What is missing is what is missing to the threshold, not to the minimum reclaim
//     above it, less what is on its way out. When a line is crossed that is almost
//     nothing, and nobody is useless. A soft threshold that is held back is followed by
//     the hard one, whose line has then just been crossed. Only of a disk that has its line
//     back, and not the reclaim, it is the rest of the reclaim.
//   - Whatever is not known might be everything: with one such candidate there is no
//     telling that all together do not suffice, and it is never too little itself. Of a
//     stall it is never known.
//   - A small pod is passed over only while the larger ones among those that would go
//     anyway suffice. So the rule makes nobody go who would have stayed without it, not
//     a pod of a higher priority in place of twenty small ones either; and where many
//     small ones make up what is missing, they go.
//   - Nothing is remembered. Each tick judges anew, by what is missing and who is left
//     then: a refused leaker comes back when its back-off ends.
//
// What it does not see is a pod's kernel memory (sockets, page tables), which the books
// do not tell from page cache: where pods hold much of it, 0% switches both rules off.

// release is what a candidate's end should return.
type release struct {
	amount int64 // in the signal's unit
	known  bool
}

// releaseOf returns what a candidate's end should return of the signal. For a stall the
// books only say who is waited for, not how much of it would end.
func releaseOf(signal pressure.Signal, expected map[string]int64) release {
	amount, known := expected[signal.String()]
	return release{amount: amount, known: known && signal != pressure.MemoryStall}
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

// missing returns what is missing to the threshold's line beside what is on its way out. Of
// a disk that has its line it is the rest of the minimum reclaim: where the host filled it
// and gave a little back, whoever is left would go for that, one by one. Of memory nothing
// is missing then and everybody may go, as in the kubelet: its line is lost again in no time.
func (a *Agent) missing(p *pressure.Pressure) int64 {
	expected, _ := a.reliedOn(p)
	available := p.Observed.Available + expected
	if available >= p.Line && p.Threshold.Signal.OnDisk() {
		return max(0, p.Target-available)
	}
	return max(0, p.Line-available)
}

// withholdUseless holds a decision when all candidates together could not return what is
// missing, and otherwise withholds those that would return too little of it. Where not all
// is known of each pod, only candidates that suffice may go, whatever the rules.
func (a *Agent) withholdUseless(d *Decision, uses *uses) (Hold, string) {
	signal, missing := d.Pressure.Threshold.Signal, a.missing(&d.Pressure)
	if missing == 0 || !a.judges(uses) {
		return HoldNone, ""
	}
	releases := make([]release, 0, len(d.Ranking.Candidates))
	for i := range d.Ranking.Candidates {
		releases = append(releases, releaseOf(signal, uses.byUID[d.Ranking.Candidates[i].Pod.UID].expected))
	}
	switch needed := a.needed(&d.Pressure); {
	case suffice(needed, releases):
	case len(uses.incomplete) > 0:
		return HoldUsageUnknown, notKnownToSuffice(signal, needed, uses.incomplete)
	case suffice(missing, releases):
		return HoldUseless, filledElsewhere(&d.Pressure, releases, a.policy.MinimumRelease)
	default:
		return HoldUseless, useless(d, missing, releases)
	}
	atLeast := a.policy.MinimumRelease.Of(missing)
	if !largerSuffice(missing, atLeast, releases) {
		return HoldNone, ""
	}
	d.Ranking.Withhold(func(e *rank.Entry) rank.Protection {
		r := releases[e.Position-1]
		if !r.known || r.amount >= atLeast {
			return rank.NotProtected
		}
		e.Detail = fmt.Sprintf("%s of the %s that are missing, limits.minimumRelease is %v",
			wording.Amount(signal, r.amount), wording.Amount(signal, missing), a.policy.MinimumRelease)
		return rank.ProtectedUseless
	})
	return HoldNone, ""
}

// judges reports whether anybody is held back because the candidates could not return what
// is needed.
func (a *Agent) judges(uses *uses) bool {
	return !a.policy.MinimumRelease.IsZero() || len(uses.incomplete) > 0
}

// needed returns what all candidates together must return: what is missing, and of a disk
// at least the minimum release of the line itself. A disk is filled over hours, by
// whatever: when its line is crossed almost nothing is missing, and the pods that happen
// to be there would go one after the other, each for a moment of rest. What is less than
// that did not fill the disk.
func (a *Agent) needed(p *pressure.Pressure) int64 {
	missing := a.missing(p)
	if missing == 0 || !p.Threshold.Signal.OnDisk() {
		return missing
	}
	return max(missing, a.policy.MinimumRelease.Of(p.Line))
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

// useless says how far the candidates would not suffice, and where else to look.
func useless(d *Decision, missing int64, releases []release) string {
	signal := d.Pressure.Threshold.Signal
	text := fmt.Sprintf("all %d candidates together could return %s of the %s that are missing: look at %s",
		len(releases), wording.Amount(signal, total(releases)), wording.Amount(signal, missing), elsewhere(signal))
	if e := largest(d.Ranking.Protected); e != nil && e.Pod.Usage > missing {
		text += fmt.Sprintf("; %s alone uses %s and is protected: %s",
			e.Pod.Key(), wording.Amount(signal, e.Pod.Usage), e.Protection)
	}
	return text
}

// elsewhere says what uses up a signal besides pods.
func elsewhere(signal pressure.Signal) string {
	switch resourceOf(signal) {
	case rank.Disk, rank.Inodes:
		return "images, hostPath volumes, files of the host and deleted files that are still open"
	case rank.PIDs:
		return "processes of the host"
	default:
		return "processes of the host, page cache and kernel memory"
	}
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
