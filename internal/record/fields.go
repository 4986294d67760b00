package record

import (
	"maps"
	"slices"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// MarshalLogObject writes the line's fields. It writes what encoding/json writes,
// key by key; a test compares the two.
func (l *Line) MarshalLogObject(enc zapcore.ObjectEncoder) error {
	if l.ID != 0 {
		enc.AddUint64(keyID, l.ID)
	}
	enc.AddTime(keyTime, l.Time)
	enc.AddString(keyVerb, l.Verb)
	addString(enc, keyHold, l.Hold)
	addString(enc, keyDetail, l.Detail)
	if len(l.Notes) > 0 {
		zap.Strings(keyNotes, l.Notes).AddTo(enc)
	}
	l.addPressure(enc)
	addString(enc, keyNotReliedOn, l.NotReliedOn)
	enc.AddBool(keyDryRun, l.DryRun)
	if l.VictimLine != nil {
		l.addVictim(enc)
	}
	if l.Of != 0 {
		enc.AddInt(keyOf, l.Of)
	}
	addString(enc, keyOutcome, l.Outcome)
	addString(enc, keyMessage, l.Message)
	addString(enc, keyBudget, l.Budget)
	addString(enc, keyBestEffort, l.BestEffort)
	if l.ReactionSeconds != nil {
		enc.AddFloat64(keyReaction, *l.ReactionSeconds)
	}
	if l.Repeats != 0 {
		enc.AddInt(keyRepeats, l.Repeats)
	}
	return l.addLists(enc)
}

// intentLine is a line before the answer: it has no verb and no outcome.
type intentLine Line

// MarshalLogObject writes the fields.
func (l *intentLine) MarshalLogObject(enc zapcore.ObjectEncoder) error {
	line := (*Line)(l)
	if line.ID != 0 {
		enc.AddUint64(keyID, line.ID)
	}
	enc.AddTime(keyTime, line.Time)
	line.addPressure(enc)
	addString(enc, keyNotReliedOn, line.NotReliedOn)
	enc.AddBool(keyDryRun, line.DryRun)
	line.addVictim(enc)
	enc.AddInt(keyOf, line.Of)
	addString(enc, keyBudget, line.Budget)
	return nil
}

func (l *Line) addPressure(enc zapcore.ObjectEncoder) {
	enc.AddString(keySignal, l.Signal)
	enc.AddString(keyUnit, l.Unit)
	enc.AddString(keyThreshold, l.Threshold)
	enc.AddString(keyKind, l.Kind)
	enc.AddInt64(keyAvailable, l.Available)
	enc.AddInt64(keyCapacity, l.Capacity)
	enc.AddInt64(keyLine, l.Line)
	enc.AddInt64(keyTarget, l.Target)
	enc.AddInt64(keyDeficit, l.Deficit)
	enc.AddTime(keySince, l.Since)
	forecastFields{l.ForecastSeconds, l.ExhaustedSeconds, l.GraceCut}.add(enc)
}

// forecastFields are what the forecast says of a pressure; nothing where it says
// nothing.
type forecastFields struct {
	seconds, exhausted *float64
	graceCut           bool
}

// MarshalLogObject adds the fields.
func (f forecastFields) MarshalLogObject(enc zapcore.ObjectEncoder) error {
	f.add(enc)
	return nil
}

func (f forecastFields) add(enc zapcore.ObjectEncoder) {
	if f.seconds != nil {
		enc.AddFloat64(keyForecast, *f.seconds)
	}
	if f.exhausted != nil {
		enc.AddFloat64(keyExhausted, *f.exhausted)
	}
	if f.graceCut {
		enc.AddBool(keyGraceCut, true)
	}
}

func (v *VictimLine) addVictim(enc zapcore.ObjectEncoder) {
	enc.AddString(keyVictim, v.Victim)
	enc.AddString(keyUID, v.UID)
	enc.AddString(keyOwner, v.Owner)
	enc.AddInt32(keyPriority, v.Priority)
	addString(enc, keyQueue, v.Queue)
	if v.EffectivePriority != nil {
		enc.AddInt32(keyEffective, *v.EffectivePriority)
	}
	enc.AddInt64(keyUsage, v.Usage)
	enc.AddInt64(keyRequest, v.Request)
	enc.AddInt64(keyOver, v.Over)
	enc.AddInt(keyRank, v.Rank)
	enc.AddInt64(keyGrace, v.GraceSeconds)
}

func (l *Line) addLists(enc zapcore.ObjectEncoder) error {
	if err := addArray(enc, keyAttempts, l.Attempts, (*AttemptLine).fields); err != nil {
		return err
	}
	if err := addArray(enc, keyRunnersUp, l.RunnersUp, (*CandidateLine).fields); err != nil {
		return err
	}
	if err := addNumbers(enc, keyBreakdown, l.Breakdown); err != nil {
		return err
	}
	if err := addNumbers(enc, keyProtected, l.Protected); err != nil {
		return err
	}
	if err := addArray(enc, keyHeldOff, l.HeldOff, (*HeldOffLine).fields); err != nil {
		return err
	}
	return addArray(enc, keyOnTheirWay, l.OnTheirWay, (*BookingLine).fields)
}

func (a *AttemptLine) fields(enc zapcore.ObjectEncoder) {
	enc.AddString(keyPod, a.Pod)
	enc.AddString(keyUID, a.UID)
	enc.AddInt(keyRank, a.Rank)
	enc.AddInt64(keyGrace, a.GraceSeconds)
	enc.AddString(keyOutcome, a.Outcome)
	addString(enc, keyMessage, a.Message)
	if a.Escalates {
		enc.AddBool(keyEscalates, true)
	}
	addString(enc, keyBudget, a.Budget)
	if a.BudgetWants != nil {
		enc.AddInt64(keyBudgetWants, *a.BudgetWants)
		enc.AddInt64(keyBudgetHas, *a.BudgetHas)
	}
	if a.RetryAfterSeconds != 0 {
		enc.AddFloat64(keyRetryAfter, a.RetryAfterSeconds)
	}
	enc.AddFloat64(keyTook, a.TookSeconds)
}

func (c *CandidateLine) fields(enc zapcore.ObjectEncoder) {
	enc.AddString(keyPod, c.Pod)
	enc.AddString(keyUID, c.UID)
	enc.AddInt(keyRank, c.Rank)
	enc.AddString(keyWhy, c.Why)
}

func (h *HeldOffLine) fields(enc zapcore.ObjectEncoder) {
	enc.AddString(keyOwner, h.Owner)
	enc.AddString(keyWhy, h.Why)
}

func (b *BookingLine) fields(enc zapcore.ObjectEncoder) {
	enc.AddString(keyPod, b.Pod)
	enc.AddString(keyUID, b.UID)
	addString(enc, keySignal, b.Signal)
	enc.AddTime(keyAccepted, b.Accepted)
	enc.AddTime(keyDeadline, b.Deadline)
}

// addString leaves out an empty text, as omitempty does.
func addString(enc zapcore.ObjectEncoder, key, value string) {
	if value != "" {
		enc.AddString(key, value)
	}
}

// addNumbers leaves out an empty map, as omitempty does.
func addNumbers[N int | int64](enc zapcore.ObjectEncoder, key string, numbers map[string]N) error {
	if len(numbers) == 0 {
		return nil
	}
	return enc.AddObject(key, zapcore.ObjectMarshalerFunc(func(enc zapcore.ObjectEncoder) error {
		for _, name := range slices.Sorted(maps.Keys(numbers)) {
			enc.AddInt64(name, int64(numbers[name]))
		}
		return nil
	}))
}

// addArray leaves out an empty list, as omitempty does.
func addArray[T any](
	enc zapcore.ObjectEncoder, key string, items []T, fields func(*T, zapcore.ObjectEncoder),
) error {
	if len(items) == 0 {
		return nil
	}
	return enc.AddArray(key, zapcore.ArrayMarshalerFunc(func(array zapcore.ArrayEncoder) error {
		for i := range items {
			item := zapcore.ObjectMarshalerFunc(func(enc zapcore.ObjectEncoder) error {
				fields(&items[i], enc)
				return nil
			})
			if err := array.AppendObject(item); err != nil {
				return err
			}
		}
		return nil
	}))
}
