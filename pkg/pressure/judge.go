package pressure

import (
	"slices"
	"time"
)

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
	missed bool      // the last reading was unknown
}

// Judge turns samples into verdicts. Like the kubelet, it remembers since when a threshold
// has been met, and which thresholds have not yet regained their minimum reclaim. It is not
// safe for concurrent use.
type Judge struct {
	lines      []line
	transition time.Duration
	trends     [SignalCount]trend
	hardLines  [SignalCount]*Threshold // nil for a signal without one
	last       time.Time
	lastMet    [SignalCount]time.Time
	lastHeld   [SignalCount]time.Time
}

// NewJudge returns a judge that has seen nothing. Transition is how long a signal stays reported as under
// pressure after its last threshold was met; 0 reports only the moment.
func NewJudge(thresholds []Threshold, transition time.Duration) *Judge {
	ordered := slices.Clone(thresholds)
	slices.SortStableFunc(ordered, Threshold.Compare)
	j := &Judge{transition: transition}
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
	verdict := Verdict{Time: sample.Time}
	for signal, hard := range j.hardLines {
		if seen := sample.Of(Signal(signal)); hard != nil && seen.State == Known { // an unknown signal has no forecast
			j.trends[signal].note(sample.Time, float64(seen.Available))
			verdict.Forecasts[signal] = j.trends[signal].until(hard.Quantity.Of(seen.Capacity), seen)
		}
	}
	for i := range j.lines {
		j.judgeLine(&j.lines[i], sample, &verdict)
	}
	verdict.Under, verdict.Held = j.lately(&j.lastMet), j.lately(&j.lastHeld)
	return verdict
}

// lately says for which signals a time is now or within the transition period.
func (j *Judge) lately(times *[SignalCount]time.Time) (is [SignalCount]bool) {
	for signal, at := range times {
		is[signal] = !at.IsZero() && (at.Equal(j.last) || j.last.Sub(at) < j.transition)
	}
	return is
}

func (j *Judge) judgeLine(l *line, sample *Sample, verdict *Verdict) {
	seen := sample.Of(l.Signal)
	switch seen.State {
	case Unknown:
		// The threshold survives one such reading. The kubelet discards its timer and minimum reclaim at the first
		// one, so that a single failed read restarts a soft grace period. The next resets it here too, which can
		// delay an eviction but never hasten one.
		if l.missed {
			l.phase = calm
		}
		l.missed = true
		if !slices.Contains(verdict.Unknown, l.Signal) {
			verdict.Unknown = append(verdict.Unknown, l.Signal)
		}
		return
	case Absent:
		l.phase, l.missed = calm, false
		return
	case Known:
	}
	lineAt := l.Quantity.Of(seen.Capacity)
	p := Pressure{
		Threshold:  l.Threshold,
		Observed:   seen,
		Line:       lineAt,
		Target:     lineAt + l.MinReclaim.Of(seen.Capacity),
		SampleTime: sample.Time,
		Forecast:   verdict.Forecasts[l.Signal],
	}
	l.advance(&p)
	p.Since = l.since
	switch l.phase {
	case holding:
		verdict.Pressures = append(verdict.Pressures, p)
		j.lastHeld[l.Signal] = sample.Time
	case waiting:
		verdict.Waiting = append(verdict.Waiting, p)
	case calm:
		return
	}
	j.lastMet[l.Signal] = sample.Time
}

// advance moves the threshold to its next phase.
func (l *line) advance(p *Pressure) {
	l.missed = false
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
