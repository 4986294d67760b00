package record

import (
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/pkg/pressure"
)

// fault is why a signal is unknown, and whether the log has it.
type fault struct {
	text string
	said bool
}

// Sample takes one reading of the node and what it means. It is called every
// tick: it logs changes only and allocates nothing when nothing changes.
func (r *Recorder) Sample(sample *pressure.Sample, verdict *pressure.Verdict) {
	if verdict.Stale {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for signal := range pressure.SignalCount {
		r.noteState(pressure.Signal(signal), &sample.Observations[signal])
	}
	r.seen = true
	r.notePressures(sample, verdict)
	r.signals.set(sample, verdict, &r.holds)
}

// noteState logs a signal whose state has changed. Of the first sample it logs only what could not
// be read, and what a threshold requires and the node does not have.
func (r *Recorder) noteState(signal pressure.Signal, seen *pressure.Observation) {
	before := r.states[signal]
	r.states[signal] = seen.State
	if seen.State == pressure.Unknown {
		r.noteFault(signal, seen.Err)
		return
	}
	said := r.faults[signal].said
	r.faults[signal] = fault{}
	absent := seen.State == pressure.Absent && !errors.Is(seen.Err, pressure.ErrUnasked)
	if !r.seen && absent {
		level := zapcore.InfoLevel
		if signal == pressure.MemoryStall {
			level = zapcore.WarnLevel // no default sets it: this threshold has no effect
		}
		r.logger.Log(level, messageAbsent, zap.Stringer(keySignal, signal), zap.Error(seen.Err))
		return
	}
	if before == seen.State || !r.seen {
		return
	}
	if before == pressure.Unknown && !said {
		return // of a file that comes and goes, the log has one pair of lines a minute
	}
	if seen.State == pressure.Absent {
		r.logger.Info(messageAbsent, zap.Stringer(keySignal, signal), zap.Error(seen.Err))
		return
	}
	r.logger.Info(messageKnown, zap.Stringer(keySignal, signal),
		zap.Int64(keyAvailable, seen.Available), zap.Int64(keyCapacity, seen.Capacity))
}

// noteFault logs a signal that is unknown: once for each reason, and about once a minute when the
// reason changes or the signal is alternately known and unknown.
func (r *Recorder) noteFault(signal pressure.Signal, err error) {
	r.metrics.readErrors.WithLabelValues(string(signal.Source())).Inc()
	f := &r.faults[signal]
	if text := fmt.Sprint(err); text != f.text {
		*f = fault{text: text}
	}
	if f.said {
		return
	}
	f.said = r.warnNowAndThen(messageUnknown+signal.String(), messageUnknown, err, zap.Stringer(keySignal, signal))
}

// notePressures logs thresholds that begin or cease to hold. A signal that is
// not known ends nothing.
func (r *Recorder) notePressures(sample *pressure.Sample, verdict *pressure.Verdict) {
	var holds [pressure.SignalCount][kindCount]bool
	for i := range verdict.Pressures {
		p := &verdict.Pressures[i]
		signal, kind := p.Threshold.Signal, kindOf(p.Threshold.Hard)
		holds[signal][kind] = true
		if !r.holds[signal][kind] {
			r.since[signal][kind] = p.Since
			r.began(p)
		}
	}
	for signal := range r.holds {
		for kind := range kindCount {
			if !r.holds[signal][kind] || holds[signal][kind] {
				continue
			}
			if sample.Observations[signal].State == pressure.Unknown {
				holds[signal][kind] = true
				continue
			}
			r.ended(pressure.Signal(signal), kind, verdict.Time)
		}
	}
	r.holds = holds
}

func (r *Recorder) began(p *pressure.Pressure) {
	line := newPressureLine(p)
	r.logger.Warn(messageBegan, inline(&line))
}

func (r *Recorder) ended(signal pressure.Signal, kind int, now time.Time) {
	since := r.since[signal][kind]
	r.held[signal][kind] = decide.HoldNone
	if signal.OnDisk() {
		r.metrics.diskUsed(signal, nil)
	}
	r.logger.Info(messageEnded, zap.Stringer(keySignal, signal), zap.String(keyKind, kindName(kind)),
		zap.Time(keySince, since.UTC()), zap.Float64(keyDuration, now.Sub(since).Seconds()))
}
