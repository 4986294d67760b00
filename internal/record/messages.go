package record

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/wording"
	"github.com/evictd/evictd/pkg/evict"
	"github.com/evictd/evictd/pkg/pressure"
)

// answerLimit bounds what is quoted of an answer, in bytes, so that the figures behind it are never cut.
const answerLimit = 300

// attemptWords returns the words of the Event of an attempt, in which its pod is called so.
func (r *Recorder) attemptWords(d *decide.Decision, a *decide.Attempt, pod string) []string {
	budget, why := "a PodDisruptionBudget", ""
	if owner := a.Entry.Pod.Owner; owner != "" {
		pod += " of " + owner
	}
	if name := budgetOf(a); name != "" {
		budget = "PodDisruptionBudget " + name
	}
	if d.DryRunWhy != "" {
		why = " evictd does not act: " + strings.TrimSuffix(d.DryRunWhy, ".") + "."
	}
	bypassed := cmp.Or(a.Bypassed, &evict.Budget{}) // only a text about one that was has its figures
	return []string{
		"{pod}", pod, "{budget}", budget, "{why}", why, "{answer}", quoted(a.Result.Message),
		"{dry}", dry(d), "{shortage}", r.shortage(d), "{judged}", judged(d, a),
		"{wants}", fmt.Sprint(bypassed.Desired), "{has}", fmt.Sprint(bypassed.Healthy),
	}
}

func dry(d *decide.Decision) string { return map[bool]string{true: "Dry run: "}[d.DryRun] }

// quoted is a text in parentheses after a space; "" where there is none.
func quoted(text string) string {
	if text == "" {
		return ""
	}
	return " (" + strings.TrimSuffix(wording.Shorten(text, answerLimit), ".") + ")"
}

// shortage returns what the node is short of, and the incident's ID where there is one.
func (r *Recorder) shortage(d *decide.Decision) string {
	p, signal := &d.Pressure, d.Pressure.Threshold.Signal
	line := wording.Amount(signal, p.Line)
	if text := p.Threshold.Quantity.String(); strings.HasSuffix(text, "%") {
		line = text + " (" + line + ")"
	}
	line += wording.Apart(signal, p.Line, p.Observed.Available)
	text := fmt.Sprintf("On node %s %s is %s of %s; its %s threshold is %s",
		r.settings.NodeName, signal, wording.Figure(signal, p.Observed.Available), wording.Amount(signal, p.Observed.Capacity),
		strings.ToLower(p.Threshold.Kind()), line)
	if p.Target > p.Line {
		text += ", and evictd stops at " + wording.Amount(signal, p.Target)
	}
	if d.Incident != "" {
		text += "; incident " + d.Incident
	}
	return text + "."
}

// judged returns why this pod and not another, as the ranking says it, and how long it has.
func judged(d *decide.Decision, a *decide.Attempt) string {
	text := "The pod "
	if !a.Escalates {
		text += fmt.Sprintf("is %d of %d candidates: it ", a.Entry.Position, len(d.Ranking.Candidates))
	}
	text += a.Entry.Why() + "."
	switch own := a.Entry.Pod.GraceSeconds; {
	case !a.Result.Outcome.Accepted():
	case a.GraceSeconds == nil:
		text += fmt.Sprintf(" It has its own grace period of %d s.", own)
	default:
		text += fmt.Sprintf(" It has a grace period of %d s instead of its own %d s.", *a.GraceSeconds, own)
	}
	return text
}

// heldWords returns the words of the Event of a hold.
func (r *Recorder) heldWords(d *decide.Decision) []string {
	shortage := r.shortage(d) + outside(d) + whereUsed(d)
	if d.Notes != nil {
		shortage += " Note: " + strings.Join(d.Notes, "; ") + "."
	}
	return []string{"{dry}", dry(d), "{hold}", string(d.Hold), "{answer}", quoted(d.Detail), "{shortage}", shortage}
}

// outside names the largest processes outside the pods; "" where they are not known.
func outside(d *decide.Decision) string {
	var named []string
	for _, p := range d.Outside {
		named = append(named, p.Name+quoted(p.Unit)+" "+wording.Amount(pressure.MemoryAvailable, p.RSS))
	}
	return listed("Largest processes outside of pods", named)
}

// whereUsed describes what a disk or the node's memory is used by, the most first; "" where that is not known.
func whereUsed(d *decide.Decision) string {
	signal := d.Pressure.Threshold.Signal
	if !signal.OnDisk() {
		signal = pressure.MemoryAvailable
	}
	var used []string
	for _, part := range slices.SortedFunc(maps.Keys(d.Breakdown), func(a, b decide.Part) int {
		return cmp.Or(cmp.Compare(d.Breakdown[b], d.Breakdown[a]), cmp.Compare(a, b))
	}) {
		used = append(used, string(part)+" "+wording.Amount(signal, d.Breakdown[part]))
	}
	return listed("Used by", used)
}

// listed is a sentence after a space; "" of none.
func listed(title string, all []string) string {
	if all == nil {
		return ""
	}
	return " " + title + ": " + strings.Join(all, ", ") + "."
}
