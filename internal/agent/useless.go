package agent

import (
	"fmt"
	"strconv"

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
//     the hard one, whose line has then just been crossed.
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

// missing returns what is missing to the threshold's line beside what is on its way out.
func (a *Agent) missing(p *pressure.Pressure) int64 {
	return max(0, p.Line-p.Observed.Available-a.reliedOn(p))
}

// withholdUseless holds a decision when all candidates together could not return what is
// missing, and otherwise withholds those that would return too little of it.
func (a *Agent) withholdUseless(d *Decision, uses *uses) (Hold, string) {
	signal, missing := d.Pressure.Threshold.Signal, a.missing(&d.Pressure)
	if a.policy.MinimumRelease.IsZero() || missing == 0 {
		return HoldNone, ""
	}
	releases := make([]release, 0, len(d.Ranking.Candidates))
	for i := range d.Ranking.Candidates {
		releases = append(releases, releaseOf(signal, uses.byUID[d.Ranking.Candidates[i].Pod.UID].expected))
	}
	if !suffice(missing, releases) {
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
			amountOf(signal, r.amount), amountOf(signal, missing), a.policy.MinimumRelease)
		return rank.ProtectedUseless
	})
	return HoldNone, ""
}

// useless says how far the candidates would not suffice, and where else to look.
func useless(d *Decision, missing int64, releases []release) string {
	signal, all := d.Pressure.Threshold.Signal, int64(0)
	for _, r := range releases {
		all += r.amount
	}
	text := fmt.Sprintf("all %d candidates together could return %s of the %s that are missing: look at %s",
		len(releases), amountOf(signal, all), amountOf(signal, missing), elsewhere(signal))
	if e := largest(d.Ranking.Protected); e != nil && e.Pod.Usage > missing {
		text += fmt.Sprintf("; %s alone uses %s and is protected: %s",
			e.Pod.Key(), amountOf(signal, e.Pod.Usage), e.Protection)
	}
	return text
}

// elsewhere says what uses up a signal besides pods.
func elsewhere(signal pressure.Signal) string {
	switch resourceOf(signal) {
	case rank.Disk, rank.Inodes:
		return "images, hostPath volumes and files of the host"
	case rank.PIDs:
		return "processes of the host"
	case rank.Memory:
		return "processes of the host, page cache and kernel memory"
	default:
		return "the host"
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

// amountOf returns an amount of a signal with its unit.
func amountOf(signal pressure.Signal, n int64) string {
	if signal.Unit() == pressure.Bytes {
		return rank.Bytes(n)
	}
	return strconv.FormatInt(n, 10) + " " + string(signal.Unit())
}
