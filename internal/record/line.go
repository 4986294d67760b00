package record

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
)

// runnersUp is how many candidates behind the victim a line names.
const runnersUp = 3

// fields are a line of the log, or an object in it. docs/runbook.md explains each key, and a test
// compares. Amounts of a signal are in its unit, amounts of pods in the unit of what was ranked by.
type fields []zap.Field

// MarshalLogObject writes the fields.
func (f fields) MarshalLogObject(enc zapcore.ObjectEncoder) error {
	for _, field := range f {
		field.AddTo(enc)
	}
	return nil
}

// json returns the fields as the log writes them.
func (f fields) json() []byte {
	encoder := zapcore.NewJSONEncoder(zapcore.EncoderConfig{EncodeTime: zapcore.RFC3339NanoTimeEncoder, SkipLineEnding: true})
	text, err := encoder.EncodeEntry(zapcore.Entry{}, f)
	if err != nil { // no value of a line does that
		return []byte(strconv.Quote(err.Error()))
	}
	return slices.Clone(text.Bytes())
}

// with adds keys and values, by pairs.
func (f fields) with(pairs ...any) fields {
	for pair := range slices.Chunk(pairs, 2) {
		f = append(f, zap.Any(fmt.Sprint(pair[0]), pair[1]))
	}
	return f
}

// some adds those pairs whose value is neither zero nor empty: what is not known, or does not apply, is
// missing.
func (f fields) some(pairs ...any) fields {
	for pair := range slices.Chunk(pairs, 2) {
		v := reflect.ValueOf(pair[1])
		empty := v.IsZero() || (v.Kind() == reflect.Slice || v.Kind() == reflect.Map) && v.Len() == 0
		if !empty {
			f = f.with(pair...)
		}
	}
	return f
}

// with returns fields of keys and values, by pairs.
func with(pairs ...any) fields { return fields(nil).with(pairs...) }

// objects is a field with an object for each element, or none.
func objects[T any](key string, all []T, one func(*T) fields) fields {
	var each []fields
	for i := range all {
		each = append(each, one(&all[i]))
	}
	if each == nil {
		return nil
	}
	return fields{zap.Objects(key, each)}
}

// budgetOf returns the name of the budget that refused or is bypassed; "" where none is known.
func budgetOf(a *decide.Attempt) string {
	if a.Bypassed != nil {
		return a.Bypassed.Name
	}
	return a.Result.Budget
}

// decisionLine is a decision as the log and /debug/status show it.
func decisionLine(d *decide.Decision) fields {
	f := situation(d, with().some("verb", d.Verb(), "hold", d.Hold, "detail", d.Detail, "notes", d.Notes))
	if victim := d.Victim(); victim != nil {
		f = append(f, victimOf(victim)...)
	}
	f = f.some("of", len(d.Ranking.Candidates))
	if last := d.Last(); last != nil {
		f = f.answer(last)
	}
	f = f.some("reaction_seconds", reactionOf(d))
	f = append(f, objects("attempts", d.Attempts, attemptOf)...)
	f = append(f, objects("runners_up", next(d), func(e *rank.Entry) fields {
		return with("pod", e.Pod.Key(), "uid", e.Pod.UID, "rank", e.Position, "why", e.Why())
	})...)
	f = append(f, objects("outside", d.Outside, func(p *decide.Process) fields {
		return with("process", p.Name).some("belongs_to", p.Unit).with("rss", p.RSS)
	})...)
	f = append(f, objects("in_flight", d.InFlight, func(b *decide.Victim) fields {
		return with("pod", b.Key(), "uid", b.UID).some("signal", b.Signal).with("accepted", b.Accepted.UTC(), "deadline", b.Deadline.UTC())
	})...)
	return f.some("breakdown", d.Breakdown, "protected", protectedOf(&d.Ranking))
}

// situation is what the node is short of and what was decided, which is nil before it is.
func situation(d *decide.Decision, decided fields) fields {
	p := &d.Pressure
	t := &p.Threshold
	f := append(with("time", d.Time.UTC()).some("incident", d.Incident), decided...)
	return f.with("signal", t.Signal, "unit", t.Signal.Unit(), "threshold", cmp.Or(t.Written, t.Quantity.String()), "kind", t.Kind(),
		"available", p.Observed.Available, "capacity", p.Observed.Capacity, "line", p.Line, "target", p.Target, "since", p.Since.UTC()).
		some("forecast_seconds", secondsTo(p.Forecast, p.Forecast.After), "exhausted_seconds", secondsTo(p.Forecast, p.Forecast.Exhausted)).
		with("deficit", p.Deficit(), "dry_run", d.DryRun).some("dry_run_why", d.DryRunWhy, "simulated", d.Simulated)
}

// secondsTo returns a time of a forecast; nil when that is not known, or never.
func secondsTo(f pressure.Forecast, after time.Duration) *float64 {
	if !f.Known || after == pressure.Never {
		return nil
	}
	return new(after.Seconds())
}

// victimOf is the pod that is evicted, with the figures that it was ranked by.
func victimOf(a *decide.Attempt) fields {
	pod := a.Entry.Pod
	f := with("victim", pod.Key(), "uid", pod.UID, "owner", pod.Owner, "priority", pod.Priority)
	if queue := a.Entry.Queue(); queue != "" {
		f = f.with("queue", queue, "effective_priority", a.Entry.EffectivePriority())
	}
	return f.with("usage", pod.Usage, "request", pod.Request, "over", a.Entry.Over, "rank", a.Entry.Position, "grace_seconds", a.Grace())
}

// attemptOf is one request and its answer.
func attemptOf(a *decide.Attempt) fields {
	f := with("pod", a.Entry.Pod.Key(), "uid", a.Entry.Pod.UID, "rank", a.Entry.Position, "grace_seconds", a.Grace()).answer(a).
		some("retry_after_seconds", a.Result.RetryAfter.Seconds()).with("took_seconds", a.Result.Took.Seconds())
	if a.Bypassed != nil { // in healthy pods
		f = f.with("budget_wants", a.Bypassed.Desired, "budget_has", a.Bypassed.Healthy)
	}
	return f.some("escalates", a.Escalates)
}

// answer adds what became of a request.
func (f fields) answer(a *decide.Attempt) fields {
	return f.some("outcome", a.Result.Outcome, "message", a.Result.Message, "budget", budgetOf(a))
}

// reactionOf returns how long after the sample the first request was sent, in seconds; nil when none
// was.
func reactionOf(d *decide.Decision) *float64 {
	if len(d.Attempts) == 0 || d.Attempts[0].Result.Sent.IsZero() {
		return nil
	}
	return new(max(0, d.Attempts[0].Result.Sent.Sub(d.Time)).Seconds())
}

// next returns the candidates that would have been tried next: those behind the last one
// that was tried, or the first ones when none was.
func next(d *decide.Decision) []rank.Entry {
	behind := 0
	for i := range d.Attempts {
		behind = max(behind, d.Attempts[i].Entry.Position)
	}
	left := d.Ranking.Candidates[min(behind, len(d.Ranking.Candidates)):] // positions count from 1
	return left[:min(runnersUp, len(left))]
}

func protectedOf(ranking *rank.Ranking) map[rank.Protection]int {
	counts := map[rank.Protection]int{}
	for i := range ranking.Protected {
		counts[ranking.Protected[i].Protection]++
	}
	return counts
}
