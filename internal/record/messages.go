package record

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/hostinfo"
	"github.com/evictd/evictd/internal/wording"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
)

// answerLimit bounds what is quoted of an answer, in bytes, so that the figures behind it are never cut.
const answerLimit = 300

// attemptWords returns the words of the Events of an attempt, but for its pod, which the Event on the pod and that
// on its controller name in two ways.
func (r *Recorder) attemptWords(d *decide.Decision, a *decide.Attempt) []string {
	words := []string{
		"{answer}", quoted(a.Result.Message), "{dry}", ifDry(d, "Dry run: ", ""), "{doubt}", ifDry(d, "", ": it may be terminating"),
		"{shortage}", r.shortage(&d.Pressure), "{judged}", judged(d, a),
	}
	budget, why := "a PodDisruptionBudget", ""
	if name := a.Result.Budget; name != "" {
		budget = "PodDisruptionBudget " + name
	}
	if bypassed := a.Bypassed; bypassed != nil {
		budget = "PodDisruptionBudget " + bypassed.Name
		words = append(words, "{wants}", fmt.Sprint(bypassed.Desired), "{has}", fmt.Sprint(bypassed.Healthy))
	}
	if d.DryRunWhy != "" {
		why = " evictd does not act: " + strings.TrimSuffix(d.DryRunWhy, ".") + "."
	}
	return append(words, "{budget}", budget, "{why}", why)
}

// thisPod is how the Event on the pod itself names it.
func thisPod(pod *rank.Pod) string {
	if pod.Owner == "" {
		return "this pod"
	}
	return "this pod of " + pod.Owner
}

// itsPod is how the Event on a controller names one of its pods. The UID distinguishes one db-0
// from the next, and keeps client-go from merging two Events.
func itsPod(pod *rank.Pod) string { return fmt.Sprintf("pod %s (UID %s)", pod.Name, pod.UID) }

func ifDry(d *decide.Decision, then, otherwise string) string {
	if d.DryRun {
		return then
	}
	return otherwise
}

// quoted is a text in parentheses after a space; "" where there is none.
func quoted(text string) string {
	if text == "" {
		return ""
	}
	return " (" + strings.TrimSuffix(shorten(text, answerLimit), ".") + ")"
}

// sentence begins a clause with a capital letter and ends it.
func sentence(clause string) string { return strings.ToUpper(clause[:1]) + clause[1:] + "." }

// shortage returns what the node is short of.
func (r *Recorder) shortage(p *pressure.Pressure) string {
	signal := p.Threshold.Signal
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
	return text + "."
}

// judged returns why this pod and not another, and how long it has.
func judged(d *decide.Decision, a *decide.Attempt) string {
	e := &a.Entry
	uses := e.Offence()
	if e.Resource == rank.Inodes || e.Resource == rank.PIDs { // nothing requests them
		uses = "uses " + wording.Amount(d.Pressure.Threshold.Signal, e.Pod.Usage)
	}
	text := fmt.Sprintf("The pod %s and has priority %d", uses, e.Pod.Priority)
	if !a.Escalates {
		text += fmt.Sprintf(": rank %d of %d candidates", e.Position, len(d.Ranking.Candidates))
	}
	sentences := []string{text + "."}
	if e.Detail != "" {
		sentences = append(sentences, sentence(e.Detail))
	}
	if a.Result.Outcome.Accepted() {
		sentences = append(sentences, grace(a))
	}
	return strings.Join(sentences, " ")
}

func grace(a *decide.Attempt) string {
	if a.GraceSeconds == nil {
		return fmt.Sprintf("It has its own grace period of %d s.", a.Entry.Pod.GraceSeconds)
	}
	if a.Escalates {
		return fmt.Sprintf("Its grace period is %d s now, from its first request on; its own is %d s.", *a.GraceSeconds, a.Entry.Pod.GraceSeconds)
	}
	return fmt.Sprintf("It has a grace period of %d s instead of its own %d s.", *a.GraceSeconds, a.Entry.Pod.GraceSeconds)
}

// heldWords returns the words of the Event of a hold.
func (r *Recorder) heldWords(d *decide.Decision) []string {
	sentences := []string{r.shortage(&d.Pressure) + outside(d) + whereUsed(d)}
	for _, note := range d.Notes {
		sentences = append(sentences, sentence(note))
	}
	return []string{"{dry}", ifDry(d, "Dry run: ", ""), "{hold}", string(d.Hold), "{answer}", quoted(d.Detail), "{shortage}", strings.Join(sentences, " ")}
}

// outside names the largest processes outside the pods; "" where they are not known.
func outside(d *decide.Decision) string {
	var named []string
	for _, p := range d.Outside {
		name := p.Name
		if p.Unit != "" {
			name += " (" + p.Unit + ")"
		}
		named = append(named, name+" "+wording.Amount(pressure.MemoryAvailable, p.RSS))
	}
	if named == nil {
		return ""
	}
	return " Largest processes outside of pods: " + strings.Join(named, ", ") + "."
}

// whereUsed describes the breakdown of a disk or of memory; "" when there is none.
func whereUsed(d *decide.Decision) string {
	signal := d.Pressure.Threshold.Signal
	if !signal.OnDisk() {
		if parts := amounts(d.Breakdown, hostinfo.Parts(), pressure.MemoryAvailable, 1); parts != "" {
			return " Memory of the node is used by: " + parts + "."
		}
		return ""
	}
	ofPods := slices.DeleteFunc(decide.Parts(), func(p decide.Part) bool { return p == decide.PartOther })
	parts := amounts(d.Breakdown, ofPods, signal, 0)
	if other, exact := d.Breakdown[decide.PartOther]; exact {
		return fmt.Sprintf(" Used by pods: %s. Used otherwise: %s.", parts, wording.Amount(signal, other))
	}
	if parts == "" {
		return ""
	}
	return " Used by pods, at least: " + parts + "."
}

// amounts lists these parts of a breakdown, in their order, where they are known and not less.
func amounts(of decide.Breakdown, parts []decide.Part, signal pressure.Signal, least int64) string {
	var listed []string
	for _, part := range parts {
		if amount, known := of[part]; known && amount >= least {
			listed = append(listed, string(part)+" "+wording.Amount(signal, amount))
		}
	}
	return strings.Join(listed, ", ")
}

// shorten cuts a text to so many bytes, between characters.
func shorten(text string, limit int) string {
	const more = "..."
	if len(text) <= limit {
		return text
	}
	cut := limit - len(more)
	for cut > 0 && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + more
}
