package record

import (
	"errors"
	"slices"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/evictd/evictd/pkg/pressure"
)

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
	r.sample, r.under, r.forecasts = *sample, verdict.Under, verdict.Forecasts
	r.pressures = append(r.pressures[:0], verdict.Pressures...) // those of the verdict are the agent's
	for i := range pressure.SignalCount {
		signal := pressure.Signal(i)
		over := sample.Of(signal).State != pressure.Unknown && !r.presses(signal, false) && !r.presses(signal, true)
		if over {
			delete(r.said, subject{heldOnNode, signal})
		}
	}
}

// presses reports whether a threshold of a signal holds.
func (r *Recorder) presses(signal pressure.Signal, hard bool) bool {
	return slices.ContainsFunc(r.pressures, func(p pressure.Pressure) bool {
		return p.Threshold.Signal == signal && p.Threshold.Hard == hard
	})
}

// noteState logs a signal whose state has changed, and about once a minute one that cannot be read: of a
// file that comes and goes, the log has one pair of lines a minute. Of the first sample it logs only what
// could not be read, and what a threshold requires and the node does not have.
func (r *Recorder) noteState(signal pressure.Signal, seen *pressure.Observation) {
	if seen.State == pressure.Unknown {
		r.metrics.failures.WithLabelValues(string(signal.Source())).Inc()
		if r.said.say(subject{"unknown", signal}, "", r.settings.Now(), failuresApart) {
			delete(r.said, subject{"state", signal}) // so that its end is said too
			r.logger.Warn("signal is unknown", zap.Stringer("signal", signal), zap.Error(seen.Err))
		}
		return
	}
	first, known := r.sample.Time.IsZero(), seen.State == pressure.Known
	if seen.State == r.sample.Of(signal).State || known && first || errors.Is(seen.Err, pressure.ErrUnasked) ||
		!r.said.say(subject{"state", signal}, seen.State.String(), time.Time{}, 0) {
		return
	}
	if known {
		r.logger.Info("signal is known again", with("signal", signal, "available", seen.Available, "capacity", seen.Capacity)...)
		return
	}
	level := zapcore.InfoLevel
	if signal == pressure.MemoryStall {
		level = zapcore.WarnLevel // no default sets it: this threshold has no effect
	}
	r.logger.Log(level, "signal became absent", zap.Stringer("signal", signal), zap.Error(seen.Err))
}
