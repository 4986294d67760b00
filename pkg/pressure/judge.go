package pressure

import (
	"slices"
	"time"
)

// missesSurvived is how many unknown readings in a row a threshold's timer and
// its minimum reclaim outlive. The kubelet forgets both at the first one, so a
// single failed read starts a soft grace period anew.
const missesSurvived = 1

// phase is where a threshold stands.
//
//	calm ──met──▶ waiting ──grace over──▶ holding ──above line + minimum reclaim──▶ calm
//	                  └──────not met──────▶ calm
//
// A hard threshold goes from calm to holding at once.
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

// Judge turns samples into verdicts. It keeps what the kubelet keeps: since when
// a threshold has been met, and which of those that held have not yet regained
// their minimum reclaim. It is not safe for concurrent use.
type Judge struct {
	lines      []line
	transition time.Duration
	last       time.Time
	lastMet    [SignalCount]time.Time
	pressures  []Pressure
	waiting    []Pressure
	unknown    []Signal
}

// NewJudge returns a judge of those thresholds. Transition is how long a signal
// stays reported as under pressure after its last threshold was met; 0 reports
// only the moment.
func NewJudge(thresholds []Threshold, transition time.Duration) *Judge {
	ordered := slices.Clone(thresholds)
	slices.SortStableFunc(ordered, compare)
	j := &Judge{transition: transition}
	for _, t := range ordered {
		j.lines = append(j.lines, line{Threshold: t})
	}
	return j
}

// Thresholds returns the thresholds in the order in which they are dealt with.
func (j *Judge) Thresholds() []Threshold {
	thresholds := make([]Threshold, 0, len(j.lines))
	for i := range j.lines {
		thresholds = append(thresholds, j.lines[i].Threshold)
	}
	return thresholds
}

// Judge says what the sample means. The verdict's slices are used again by the
// next call; keep copies of what should outlive it. A sample that is not newer
// than the one before is stale: it changes nothing.
func (j *Judge) Judge(sample *Sample) Verdict {
	if !j.last.IsZero() && !sample.Time.After(j.last) {
		return Verdict{Time: sample.Time, Stale: true}
	}
	j.last = sample.Time
	j.pressures, j.waiting, j.unknown = j.pressures[:0], j.waiting[:0], j.unknown[:0]
	for i := range j.lines {
		j.judgeLine(&j.lines[i], sample)
	}
	verdict := Verdict{Time: sample.Time, Pressures: j.pressures, Waiting: j.waiting, Unknown: j.unknown}
	for signal, met := range j.lastMet {
		verdict.Under[signal] = !met.IsZero() && (met.Equal(j.last) || j.last.Sub(met) < j.transition)
	}
	return verdict
}

func (j *Judge) judgeLine(l *line, sample *Sample) {
	seen := sample.Of(l.Signal)
	switch seen.State {
	case Unknown:
		l.miss()
		if !slices.Contains(j.unknown, l.Signal) {
			j.unknown = append(j.unknown, l.Signal)
		}
		return
	case Absent:
		l.phase, l.misses = calm, 0
		return
	case Known:
	}
	p := l.pressure(seen, sample.Time)
	l.advance(&p, sample.Time)
	p.Since = l.since
	switch l.phase {
	case holding:
		j.pressures = append(j.pressures, p)
		j.lastMet[l.Signal] = sample.Time
	case waiting:
		j.waiting = append(j.waiting, p)
		j.lastMet[l.Signal] = sample.Time
	case calm:
	}
}

// miss notes an unknown reading: one is survived, the next forgets everything,
// which delays an eviction and never hastens one.
func (l *line) miss() {
	l.misses++
	if l.misses > missesSurvived {
		l.phase = calm
	}
}

// advance moves the threshold to its next phase.
func (l *line) advance(p *Pressure, now time.Time) {
	l.misses = 0
	met := p.Observed.Available < p.Line
	switch l.phase {
	case calm:
		if met {
			l.since = now
			l.phase = l.wait(now)
		}
	case waiting:
		if !met {
			l.phase = calm
			return
		}
		l.phase = l.wait(now)
	case holding:
		if p.Observed.Available >= p.Target {
			l.phase = calm
		}
	}
}

// wait returns holding once the grace period is over.
func (l *line) wait(now time.Time) phase {
	if l.Hard || now.Sub(l.since) >= l.Grace {
		return holding
	}
	return waiting
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
