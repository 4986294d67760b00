package record

import (
	"errors"
	"fmt"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/evictd/evictd/pkg/pressure"
)

// threshold is one of a signal's two.
type threshold struct {
	signal pressure.Signal
	hard   bool
}

func thresholdOf(p *pressure.Pressure) threshold {
	return threshold{p.Threshold.Signal, p.Threshold.Hard}
}

func (t threshold) kind() string { return pressure.Threshold{Hard: t.hard}.Kind() }

// Sample takes one reading of the node and what it means. It is called every
// tick: it logs changes only and allocates nothing when nothing changes.
func (r *Recorder) Sample(sample *pressure.Sample, verdict *pressure.Verdict) {
	if verdict.Stale {
		return
	}
	r.readHost(verdict)
	r.mu.Lock()
	defer r.mu.Unlock()
	for signal := range pressure.SignalCount {
		r.noteState(pressure.Signal(signal), &sample.Observations[signal])
	}
	for i := range verdict.Pressures {
		r.noteBegin(&verdict.Pressures[i])
	}
	for signal := range pressure.SignalCount {
		r.noteEnd(threshold{pressure.Signal(signal), false}, sample, verdict)
		r.noteEnd(threshold{pressure.Signal(signal), true}, sample, verdict)
	}
	r.seen, r.sample, r.under, r.forecasts = true, *sample, verdict.Under, verdict.Forecasts
}

// noteState logs a signal whose state has changed. Of the first sample it logs only what could not
// be read, and what a threshold requires and the node does not have.
func (r *Recorder) noteState(signal pressure.Signal, seen *pressure.Observation) {
	if seen.State == pressure.Unknown {
		r.metrics.readErrors.WithLabelValues(string(signal.Source())).Inc()
		if repeats, due := r.said.say(signal, fmt.Sprint(seen.Err), r.settings.Now(), pace{apart: failuresApart}); due {
			r.logger.Warn("signal is unknown", append(with("signal", signal, "repeats", repeats), zap.Error(seen.Err))...)
		}
		return
	}
	changed := seen.State != r.states[signal]
	r.states[signal] = seen.State
	if recovered := r.said.end(signal); !changed && !recovered {
		return // of a file that comes and goes, the log has one pair of lines a minute
	}
	switch level := zapcore.InfoLevel; {
	case seen.State == pressure.Absent && (r.seen || !errors.Is(seen.Err, pressure.ErrUnasked)):
		if !r.seen && signal == pressure.MemoryStall {
			level = zapcore.WarnLevel // no default sets it: this threshold has no effect
		}
		r.logger.Log(level, "signal became absent", zap.Stringer("signal", signal), zap.Error(seen.Err))
	case seen.State == pressure.Known && r.seen:
		r.logger.Info("signal is known again", with("signal", signal, "available", seen.Available, "capacity", seen.Capacity)...)
	}
}

// noteBegin logs a threshold that begins to hold.
func (r *Recorder) noteBegin(p *pressure.Pressure) {
	if _, holds := r.holding[thresholdOf(p)]; holds {
		return
	}
	r.holding[thresholdOf(p)] = p.Since
	r.logger.Warn("pressure began", pressureLine(p)...)
}

// noteEnd logs a threshold that ceases to hold. A signal that is not known ends nothing.
func (r *Recorder) noteEnd(t threshold, sample *pressure.Sample, verdict *pressure.Verdict) {
	since, held := r.holding[t]
	if !held || sample.Of(t.signal).State == pressure.Unknown {
		return
	}
	for i := range verdict.Pressures {
		if thresholdOf(&verdict.Pressures[i]) == t {
			return
		}
	}
	delete(r.holding, t)
	r.said.end(t) // the hold
	r.metrics.breakDown(t.signal, nil)
	r.logger.Info("pressure ended", with("signal", t.signal, "kind", t.kind(),
		"since", since.UTC(), "duration_seconds", verdict.Time.Sub(since).Seconds())...)
}
