package pressure

import (
	"slices"
	"time"
)

// missesSurvived is how many consecutive unknown readings a threshold's timer and minimum
// reclaim survive. The kubelet discards both at the first one, so that a single failed read
// restarts a soft grace period.
const missesSurvived = 1

// phase is the state of a threshold.
//
//	calm ──met──▶ waiting ──grace over──▶ holding ──above line + minimum reclaim──▶ calm
//	                  └──────not met──────▶ calm
//
// A hard threshold changes from calm to holding at once. A signal that is absent, or unknown
// twice in a row, resets its thresholds to calm from any phase.
type phase uint8

const (
	calm phase = iota
	waiting
	holding
)

// line is a threshold and where it stands.
type line struct {
	Threshold
	phase  phase
	since  time.Time // first met without a break; meaningless when calm
	misses int       // unknown readings in a row
}

// Judge turns samples into verdicts. Like the kubelet, it remembers since when a threshold
// has been met, and which thresholds have not yet regained their minimum reclaim. It is not
// safe for concurrent use.
type Judge struct {
	lines     []line
	options   JudgeOptions
	trends    [SignalCount]trend
	hardLines [SignalCount]*Threshold // nil for a signal without one
	last      time.Time
	lastMet   [SignalCount]time.Time
}

// JudgeOptions say how samples are judged.
type JudgeOptions struct {
	// Thresholds are the lines.
	Thresholds []Threshold
	// Transition is how long a signal stays reported as under pressure after its
	// last threshold was met; 0 reports only the moment.
	Transition time.Duration
}

// NewJudge returns a judge that has seen nothing.
func NewJudge(options JudgeOptions) *Judge {
	ordered := slices.Clone(options.Thresholds)
	slices.SortStableFunc(ordered, Threshold.Compare)
	j := &Judge{options: options}
	for i := range ordered {
		j.lines = append(j.lines, line{Threshold: ordered[i]})
		// A stall is measured over a sliding window: it has no trend.
		if t := &ordered[i]; t.Hard && t.Signal != MemoryStall && j.hardLines[t.Signal] == nil {
			j.hardLines[t.Signal] = t
		}
	}
	return j
}

// Judge returns the verdict on a sample. A sample that is not newer than the previous one is stale and
// changes nothing.
func (j *Judge) Judge(sample *Sample) Verdict {
	if !j.last.IsZero() && !sample.Time.After(j.last) {
		return Verdict{Time: sample.Time, Stale: true}
	}
	j.last = sample.Time
	verdict := Verdict{Time: sample.Time, Forecasts: j.forecast(sample)}
	for i := range j.lines {
		j.judgeLine(&j.lines[i], sample, &verdict)
	}
	for signal, met := range j.lastMet {
		verdict.Under[signal] = !met.IsZero() && (met.Equal(j.last) || j.last.Sub(met) < j.options.Transition)
	}
	return verdict
}

// forecast follows the signals that have a hard threshold. An unknown signal has no
// forecast.
func (j *Judge) forecast(sample *Sample) [SignalCount]Forecast {
	var forecasts [SignalCount]Forecast
	for signal, hard := range j.hardLines {
		seen := sample.Of(Signal(signal))
		if hard == nil || seen.State != Known {
			continue
		}
		j.trends[signal].note(sample.Time, float64(seen.Available))
		forecasts[signal] = j.trends[signal].until(hard.Quantity.Of(seen.Capacity), seen)
	}
	return forecasts
}

func (j *Judge) judgeLine(l *line, sample *Sample, verdict *Verdict) {
	seen := sample.Of(l.Signal)
	switch seen.State {
	case Unknown:
		l.miss()
		if !slices.Contains(verdict.Unknown, l.Signal) {
			verdict.Unknown = append(verdict.Unknown, l.Signal)
		}
		return
	case Absent:
		l.phase, l.misses = calm, 0
		return
	case Known:
	}
	p := l.pressure(seen, sample.Time)
	p.Forecast = verdict.Forecasts[l.Signal]
	l.advance(&p)
	p.Since = l.since
	switch l.phase {
	case holding:
		verdict.Pressures = append(verdict.Pressures, p)
	case waiting:
		verdict.Waiting = append(verdict.Waiting, p)
	case calm:
		return
	}
	j.lastMet[l.Signal] = sample.Time
}

// miss records an unknown reading: the first one is tolerated, the next resets the
// threshold. That can delay an eviction but never hasten one.
func (l *line) miss() {
	l.misses++
	if l.misses > missesSurvived {
		l.phase = calm
	}
}

// advance moves the threshold to its next phase.
func (l *line) advance(p *Pressure) {
	l.misses = 0
	met := p.Observed.Available < p.Line
	switch {
	case l.phase == holding:
		if p.Observed.Available >= p.Target {
			l.phase = calm
		}
		return
	case !met:
		l.phase = calm
		return
	case l.phase == calm:
		l.phase, l.since = waiting, p.SampleTime
	}
	if l.Hard || p.SampleTime.Sub(l.since) >= l.Grace {
		l.phase = holding
	}
}

func (l *line) pressure(seen Observation, at time.Time) Pressure {
	lineAt := l.Quantity.Of(seen.Capacity)
	return Pressure{
		Threshold:  l.Threshold,
		Observed:   seen,
		Line:       lineAt,
		Target:     lineAt + l.MinReclaim.Of(seen.Capacity),
		SampleTime: at,
	}
}
