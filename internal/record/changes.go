package record

import (
	"errors"

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
	r.sample, r.forecasts = *sample, verdict.Forecasts
	r.pressures = append(r.pressures[:0], verdict.Pressures...) // those of the verdict are the agent's
}

// noteState logs that a signal cannot be read, as every failure, and that the node does not have one that a
// threshold requires.
func (r *Recorder) noteState(signal pressure.Signal, seen *pressure.Observation) {
	level, message := zapcore.WarnLevel, "signal is unknown"
	switch {
	case seen.State == pressure.Unknown:
		r.metrics.failures.WithLabelValues(string(signal.Source())).Inc()
	case seen.State == pressure.Absent && r.sample.Of(signal).State != pressure.Absent && !errors.Is(seen.Err, pressure.ErrUnasked):
		level, message = zapcore.InfoLevel, "signal became absent"
	default:
		return
	}
	if r.said.say(subject{message, signal}, "", r.settings.Now()) {
		r.logger.Log(level, message, zap.Stringer("signal", signal), zap.Error(seen.Err))
	}
}
