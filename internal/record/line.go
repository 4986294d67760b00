package record

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
)

// runnersUp is how many candidates behind the victim a line names.
const runnersUp = 3

// Line is a decision as the log and /debug/decisions show it. Amounts of the
// signal are in the signal's unit, amounts of pods in the unit of what was ranked
// by; docs/runbook.md explains each key.
type Line struct {
	ID   uint64    `json:"id,omitempty"`
	Time time.Time `json:"time"`
	// Incident names the shortage that the decision is part of; "" where there is none.
	Incident string `json:"incident,omitempty"`
	// Verb is "" before the answer.
	Verb   string   `json:"verb,omitempty"`
	Hold   string   `json:"hold,omitempty"`
	Detail string   `json:"detail,omitempty"`
	Notes  []string `json:"notes,omitempty"`
	PressureLine
	Deficit int64 `json:"deficit"`
	DryRun  bool  `json:"dry_run"`
	// DryRunWhy says why evictd does not act; "" where it does, or that is not known.
	DryRunWhy string `json:"dry_run_why,omitempty"`
	// Simulated is how much of Available counts as reclaimed from a dry run's simulated victims.
	Simulated int64 `json:"simulated,omitempty"`
	// VictimLine is nil when no eviction was accepted.
	*VictimLine `json:",omitempty"`
	// Of is how many candidates there were; nil when a decision ranked nothing.
	Of *int `json:"of,omitempty"`
	// Outcome, Message and Budget are the last request's; "" when none was sent.
	Outcome string `json:"outcome,omitempty"`
	Message string `json:"message,omitempty"`
	Budget  string `json:"budget,omitempty"`
	// BestEffort is the result of the check for a bypass of a budget; "" when there was no such
	// check.
	BestEffort string `json:"best_effort,omitempty"`
	// ReactionSeconds is from the sample to the first request; nil when none was
	// sent.
	ReactionSeconds *float64        `json:"reaction_seconds,omitempty"`
	Attempts        []AttemptLine   `json:"attempts,omitempty"`
	RunnersUp       []CandidateLine `json:"runners_up,omitempty"`
	// Breakdown says where what is used of a disk is, by [decide.Part], in the signal's
	// unit, or where the node's memory is, in bytes; missing where it is not known.
	Breakdown decide.Breakdown `json:"breakdown,omitempty"`
	// Outside are the largest processes outside the pods, where no eviction would help.
	Outside []ProcessLine `json:"outside,omitempty"`
	// Protected counts the pods that could not be evicted, by reason.
	Protected map[rank.Protection]int `json:"protected,omitempty"`
	InFlight  []BookingLine           `json:"in_flight,omitempty"`
	// Repeats counts the equal holds before this one that /debug/decisions left
	// out; always 0 in the log.
	Repeats int `json:"repeats,omitempty"`
}

// PressureLine is what the node is short of.
type PressureLine struct {
	Signal    string    `json:"signal"`
	Unit      string    `json:"unit"`
	Threshold string    `json:"threshold"`
	Kind      string    `json:"kind"`
	Available int64     `json:"available"`
	Capacity  int64     `json:"capacity"`
	Line      int64     `json:"line"`
	Target    int64     `json:"target"`
	Since     time.Time `json:"since"`
	// ForecastSeconds is when the hard threshold will be met; nil when that is not
	// known, or never.
	ForecastSeconds *float64 `json:"forecast_seconds,omitempty"`
	// ExhaustedSeconds is when nothing will be left; nil when that is not known, or
	// never.
	ExhaustedSeconds *float64 `json:"exhausted_seconds,omitempty"`
}

// VictimLine is the pod that is evicted, with the figures that it was ranked by.
type VictimLine struct {
	Victim   string `json:"victim"`
	UID      string `json:"uid"`
	Owner    string `json:"owner"`
	Priority int32  `json:"priority"`
	// Queue and EffectivePriority are missing where no queues are configured.
	Queue             string `json:"queue,omitempty"`
	EffectivePriority *int32 `json:"effective_priority,omitempty"`
	Usage             int64  `json:"usage"`
	Request           int64  `json:"request"`
	Over              int64  `json:"over"`
	Rank              int    `json:"rank"`
	GraceSeconds      int64  `json:"grace_seconds"`
}

// AttemptLine is one request and its answer.
type AttemptLine struct {
	Pod               string  `json:"pod"`
	UID               string  `json:"uid"`
	Rank              int     `json:"rank"`
	GraceSeconds      int64   `json:"grace_seconds"`
	Outcome           string  `json:"outcome"`
	Message           string  `json:"message,omitempty"`
	Budget            string  `json:"budget,omitempty"`
	RetryAfterSeconds float64 `json:"retry_after_seconds,omitempty"`
	TookSeconds       float64 `json:"took_seconds"`
	// BudgetWants and BudgetHas are healthy pods; nil unless the request is a delete.
	BudgetWants *int64 `json:"budget_wants,omitempty"`
	BudgetHas   *int64 `json:"budget_has,omitempty"`
	// Escalates says that the pod was a victim already.
	Escalates bool `json:"escalates,omitempty"`
}

// CandidateLine is a pod that would have been next.
type CandidateLine struct {
	Pod  string `json:"pod"`
	UID  string `json:"uid"`
	Rank int    `json:"rank"`
	Why  string `json:"why"`
}

// ProcessLine is a process outside the pods.
type ProcessLine struct {
	Process string `json:"process"`
	// Unit is the systemd unit or container; "" where there is none.
	Unit string `json:"belongs_to,omitempty"`
	RSS  int64  `json:"rss"`
}

// BookingLine is a victim that had not ended yet.
type BookingLine struct {
	Pod      string    `json:"pod"`
	UID      string    `json:"uid"`
	Signal   string    `json:"signal,omitempty"`
	Accepted time.Time `json:"accepted"`
	Deadline time.Time `json:"deadline"`
}

func newPressureLine(p *pressure.Pressure) PressureLine {
	return PressureLine{
		Signal: p.Threshold.Signal.String(), Unit: string(p.Threshold.Signal.Unit()),
		Threshold: cmp.Or(p.Threshold.Written, p.Threshold.Quantity.String()), Kind: p.Threshold.Kind(),
		Available: p.Observed.Available, Capacity: p.Observed.Capacity,
		Line: p.Line, Target: p.Target, Since: p.Since.UTC(),
		ForecastSeconds:  secondsTo(p.Forecast, p.Forecast.After),
		ExhaustedSeconds: secondsTo(p.Forecast, p.Forecast.Exhausted),
	}
}

// secondsTo returns a time of a forecast; nil when that is not known, or never.
func secondsTo(f pressure.Forecast, after time.Duration) *float64 {
	if !f.Known || after == pressure.Never {
		return nil
	}
	seconds := after.Seconds()
	return &seconds
}

// newIntentLine copies what is known of a decision before a request is sent.
func newIntentLine(d *decide.Decision) Line {
	of := len(d.Ranking.Candidates)
	return Line{
		ID: d.ID, Time: d.Time.UTC(), Incident: d.Incident, PressureLine: newPressureLine(&d.Pressure), Deficit: d.Pressure.Deficit(),
		DryRun: d.DryRun, DryRunWhy: d.DryRunWhy, Simulated: d.Simulated, Of: &of,
	}
}

// newLine copies what a decision says. Nothing in it points into the decision but to
// figures that do not change.
func newLine(d *decide.Decision) Line {
	line := newIntentLine(d)
	if *line.Of == 0 {
		line.Of = nil
	}
	line.Verb, line.Hold, line.Detail, line.BestEffort = string(d.Verb), string(d.Hold), d.Detail, string(d.BestEffort)
	line.Notes = slices.Clone(d.Notes)
	line.RunnersUp = runnersUpOf(d)
	line.Breakdown = maps.Clone(d.Breakdown)
	for _, p := range d.Outside {
		line.Outside = append(line.Outside, ProcessLine{Process: p.Name, Unit: p.Unit, RSS: p.RSS})
	}
	line.Protected = protectedOf(&d.Ranking)
	line.InFlight = bookingLines(d.InFlight)
	if victim := d.Victim(); victim != nil {
		line.VictimLine = newVictimLine(victim)
	}
	for i := range d.Attempts {
		line.Attempts = append(line.Attempts, newAttemptLine(&d.Attempts[i]))
	}
	if n := len(line.Attempts); n > 0 {
		last := &line.Attempts[n-1]
		line.Outcome, line.Message, line.Budget = last.Outcome, last.Message, last.Budget
	}
	if reaction, known := reactionOf(d); known {
		seconds := reaction.Seconds()
		line.ReactionSeconds = &seconds
	}
	return line
}

func newVictimLine(a *decide.Attempt) *VictimLine {
	pod := a.Entry.Pod
	line := &VictimLine{
		Victim: pod.Key(), UID: pod.UID, Owner: pod.Owner, Priority: pod.Priority,
		Queue: a.Entry.Queue(),
		Usage: pod.Usage, Request: pod.Request, Over: a.Entry.Over, Rank: a.Entry.Position,
		GraceSeconds: a.Grace(),
	}
	if line.Queue != "" {
		effective := a.Entry.EffectivePriority()
		line.EffectivePriority = &effective
	}
	return line
}

func newAttemptLine(a *decide.Attempt) AttemptLine {
	line := AttemptLine{
		Pod: a.Entry.Pod.Key(), UID: a.Entry.Pod.UID, Rank: a.Entry.Position, GraceSeconds: a.Grace(),
		Outcome: string(a.Result.Outcome), Message: a.Result.Message, Budget: a.Result.Budget,
		RetryAfterSeconds: a.Result.RetryAfter.Seconds(), TookSeconds: a.Result.Took.Seconds(),
		Escalates: a.Escalates,
	}
	if bypassed := a.Bypassed; bypassed != nil {
		line.Budget, line.BudgetWants, line.BudgetHas = bypassed.Name, &bypassed.Desired, &bypassed.Healthy
	}
	return line
}

// reactionOf returns how long after the sample the first request was sent; false
// when none was.
func reactionOf(d *decide.Decision) (time.Duration, bool) {
	if len(d.Attempts) == 0 || d.Attempts[0].Result.Sent.IsZero() {
		return 0, false
	}
	return max(0, d.Attempts[0].Result.Sent.Sub(d.Time)), true
}

// runnersUpOf returns the candidates that would have been tried next: those behind the last one
// that was tried, or the first ones when none was.
func runnersUpOf(d *decide.Decision) []CandidateLine {
	behind := 0
	for i := range d.Attempts {
		behind = max(behind, d.Attempts[i].Entry.Position)
	}
	var next []CandidateLine
	for i := range d.Ranking.Candidates {
		e := &d.Ranking.Candidates[i]
		if e.Position <= behind {
			continue
		}
		next = append(next, CandidateLine{Pod: e.Pod.Key(), UID: e.Pod.UID, Rank: e.Position, Why: e.Why()})
		if len(next) == runnersUp {
			break
		}
	}
	return next
}

func protectedOf(ranking *rank.Ranking) map[rank.Protection]int {
	counts := map[rank.Protection]int{}
	for i := range ranking.Protected {
		counts[ranking.Protected[i].Protection]++
	}
	return counts
}

func bookingLines(bookings []decide.Victim) []BookingLine {
	lines := make([]BookingLine, 0, len(bookings))
	for i := range bookings {
		b := &bookings[i]
		lines = append(lines, BookingLine{
			Pod: b.Key(), UID: b.UID, Signal: b.Signal,
			Accepted: b.Accepted.UTC(), Deadline: b.Deadline.UTC(),
		})
	}
	return lines
}
