package record

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/hostinfo"
	"github.com/evictd/evictd/internal/wording"
	"github.com/evictd/evictd/pkg/evict"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
)

const (
	// messageLimit is the API's limit for an Event's text, in bytes.
	messageLimit = 1024
	// answerLimit bounds what is quoted of an answer, so that the figures behind it
	// are never cut.
	answerLimit = 300
)

// attemptMessage returns the text for the pod or its controller, which differ only in how they name
// the pod: what happened to it, why the node requires its eviction, and why this pod was chosen.
func (r *Recorder) attemptMessage(d *decide.Decision, a *decide.Attempt, pod string) string {
	sentences := []string{fate(d, a, pod), r.shortage(&d.Pressure), judged(d, a)}
	if detail := a.Entry.Detail; detail != "" {
		sentences = append(sentences, strings.ToUpper(detail[:1])+detail[1:]+".")
	}
	if a.Result.Outcome.Accepted() {
		sentences = append(sentences, grace(a))
	}
	return shorten(strings.Join(sentences, " "), messageLimit)
}

// thisPod is how the Event on the pod itself names it.
func thisPod(a *decide.Attempt) string {
	if a.Entry.Pod.Owner == "" {
		return "this pod"
	}
	return "this pod of " + a.Entry.Pod.Owner
}

// itsPod is how the Event on a controller names one of its pods. The UID distinguishes one db-0
// from the next, and keeps client-go from merging two Events.
func itsPod(pod *rank.Pod) string { return fmt.Sprintf("pod %s (UID %s)", pod.Name, pod.UID) }

// fate returns what became of the pod.
func fate(d *decide.Decision, a *decide.Attempt, pod string) string {
	if a.Result.Outcome.Simulated() {
		return "Dry run, nothing happens to it: evictd would " + act(a, "", pod) + "." + notActing(d)
	}
	if a.Result.Outcome.Accepted() {
		return "evictd " + act(a, "s", pod) + "."
	}
	text := refusal(d, a, pod)
	if answer := shorten(a.Result.Message, answerLimit); answer != "" {
		text += " (" + strings.TrimSuffix(answer, ".") + ")"
	}
	if d.DryRun {
		text = "Dry run: " + text
	}
	return text + "."
}

// act returns what evictd does to the pod, with the ending of its verb.
func act(a *decide.Attempt, ending, pod string) string {
	switch bypassed := a.Bypassed; {
	case bypassed != nil:
		return fmt.Sprintf("delete%s %s bypassing PodDisruptionBudget %s, which wants %d healthy pods and has %d: "+
			"no candidate could be evicted, and disruptionBudgets is bestEffort", ending, pod, bypassed.Name, bypassed.Desired, bypassed.Healthy)
	case a.Escalates:
		return fmt.Sprintf("ask%s again for %s, which is terminating and should have ended by now", ending, pod)
	default:
		return "evict" + ending + " " + pod
	}
}

// refusal returns why the pod stays, or may stay.
func refusal(d *decide.Decision, a *decide.Attempt, pod string) string {
	switch a.Result.Outcome {
	case evict.BlockedByBudget:
		return "evictd may not evict " + pod + ": " + budget(a) + " allows no disruption now"
	case evict.BudgetPending:
		return "evictd may not evict " + pod + " yet: " + budget(a) + " is still being processed"
	case evict.Denied:
		return "evictd may not evict " + pod + ": the API server denies it"
	case evict.Evacuating:
		return "evictd asked to evict " + pod + ", and admission moves it away by its own means"
	case evict.Misconfigured:
		return "evictd cannot evict " + pod + " until its PodDisruptionBudgets are fixed: more than one PodDisruptionBudget selects it"
	case evict.Unconfirmed:
		text := "evictd requested the eviction of " + pod + " and got no answer"
		if !d.DryRun {
			text += ": it may be terminating"
		}
		return text
	default:
		return "evictd did not evict " + pod
	}
}

func budget(a *decide.Attempt) string {
	if a.Result.Budget == "" {
		return "a PodDisruptionBudget"
	}
	return "PodDisruptionBudget " + a.Result.Budget
}

// shortage returns what the node is short of.
func (r *Recorder) shortage(p *pressure.Pressure) string {
	signal := p.Threshold.Signal
	line := wording.Amount(signal, p.Line)
	if text := p.Threshold.Quantity.String(); strings.HasSuffix(text, "%") {
		line = text + " (" + line + ")"
	}
	line += wording.Apart(signal, p.Line, p.Observed.Available)
	text := fmt.Sprintf("On node %s %s is %s of %s; its %s threshold is %s",
		r.node, signal, wording.Figure(signal, p.Observed.Available), wording.Amount(signal, p.Observed.Capacity),
		strings.ToLower(p.Threshold.Kind()), line)
	if p.Target > p.Line {
		text += ", and evictd stops at " + wording.Amount(signal, p.Target)
	}
	return text + "."
}

// judged returns why this pod and not another.
func judged(d *decide.Decision, a *decide.Attempt) string {
	e := &a.Entry
	uses := e.Offence()
	switch e.Resource {
	case rank.Inodes:
		uses = fmt.Sprintf("uses %d inodes", e.Pod.Usage)
	case rank.PIDs:
		uses = fmt.Sprintf("uses %d tasks", e.Pod.Usage)
	case rank.Memory, rank.Disk:
	}
	text := fmt.Sprintf("The pod %s and has priority %d", uses, e.Pod.Priority)
	if a.Escalates {
		return text + "."
	}
	return text + fmt.Sprintf(": rank %d of %d candidates.", e.Position, len(d.Ranking.Candidates))
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

// heldMessage returns the text for the node.
func (r *Recorder) heldMessage(d *decide.Decision) string {
	text := "evictd evicts no pod: " + string(d.Hold)
	if d.Detail != "" {
		text += " (" + shorten(d.Detail, answerLimit) + ")"
	}
	if d.DryRun {
		text = "Dry run: " + text
	}
	sentences := []string{text + ".", r.shortage(&d.Pressure) + outside(d) + whereUsed(d)}
	for _, note := range d.Notes {
		sentences = append(sentences, strings.ToUpper(note[:1])+note[1:]+".")
	}
	return shorten(strings.Join(sentences, " "), messageLimit)
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
		return memoryUsed(d.Breakdown)
	}
	other, exact := d.Breakdown[decide.PartOther]
	var parts []string
	for _, part := range decide.Parts() {
		if used, told := d.Breakdown[part]; told && part != decide.PartOther {
			parts = append(parts, string(part)+" "+wording.Amount(signal, used))
		}
	}
	switch {
	case exact:
		return fmt.Sprintf(" Used by pods: %s. Used otherwise: %s.", strings.Join(parts, ", "), wording.Amount(signal, other))
	case len(parts) > 0:
		return fmt.Sprintf(" Used by pods, at least: %s.", strings.Join(parts, ", "))
	default:
		return ""
	}
}

// memoryUsed describes what uses the node's memory; "" when it is not known.
func memoryUsed(b decide.Breakdown) string {
	var parts []string
	for _, part := range hostinfo.Parts() {
		if used := b[part]; used > 0 {
			parts = append(parts, string(part)+" "+wording.Amount(pressure.MemoryAvailable, used))
		}
	}
	if parts == nil {
		return ""
	}
	return " Memory of the node is used by: " + strings.Join(parts, ", ") + "."
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
