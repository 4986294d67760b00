package record

import (
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/evictd/evictd/internal/agent"
	"github.com/evictd/evictd/pkg/evict"
	"github.com/evictd/evictd/pkg/pressure"
)

// sayAgainAfter is how often a failure that goes on is logged: a node is read up
// to a hundred times a second.
const sayAgainAfter = time.Minute

// EventWriter takes Kubernetes Events, as client-go's record.EventRecorder and
// [Events] do. It must not wait for the API server.
type EventWriter interface {
	Event(object runtime.Object, eventtype, reason, message string)
	// AnnotatedEventf is Event with annotations.
	AnnotatedEventf(object runtime.Object, annotations map[string]string, eventtype, reason, format string, args ...any)
}

// Settings are what [New] needs besides the places to write to.
type Settings struct {
	// NodeName is the node evictd runs on.
	NodeName string
	// Version is the program's version, for evictd_build_info.
	Version string
	// Now is the clock, for the pace of log lines alone.
	Now func() time.Time
}

// Recorder writes down what the agent does. Its methods may be called from any
// goroutine; none waits for the API server.
type Recorder struct {
	logger  *zap.Logger
	events  EventWriter
	node    string
	now     func() time.Time
	metrics *metrics
	signals *signals
	ring    *ring

	mu     sync.Mutex // guards all below
	seen   bool
	states [pressure.SignalCount]pressure.State
	faults [pressure.SignalCount]fault
	since  [pressure.SignalCount][kindCount]time.Time // zero: the threshold does not hold
	holds  [pressure.SignalCount][kindCount]bool
	held   [pressure.SignalCount][kindCount]agent.Hold // the last decision's, for Events on the node
	quiet  map[string]*pause
}

// fault is why a signal is unknown, and whether the log has it.
type fault struct {
	text string
	said bool
}

// pause paces the log lines of one kind of failure.
type pause struct {
	said    time.Time
	repeats int
}

// New returns a recorder whose metrics are registered. Events may be nil: then
// none are written.
func New(
	logger *zap.Logger, registerer prometheus.Registerer, events EventWriter, settings Settings,
) (*Recorder, error) {
	if logger == nil || registerer == nil || settings.Now == nil {
		return nil, errors.New("creating the recorder: a logger, a registerer and a clock are required")
	}
	m, err := newMetrics(registerer, settings.Version)
	if err != nil {
		return nil, err
	}
	r := &Recorder{
		logger: logger, events: events, node: settings.NodeName, now: settings.Now,
		metrics: m, signals: newSignals(), ring: &ring{}, quiet: map[string]*pause{},
	}
	if err := registerer.Register(r.signals); err != nil {
		return nil, fmt.Errorf("registering the signals: %w", err)
	}
	return r, nil
}

// Decisions serves the last decisions as JSON, the newest first.
func (r *Recorder) Decisions() http.Handler { return r.ring }

// Intent writes the line before a request is sent: if the process dies while it
// waits for the answer, the line says whom it asked for and why.
func (r *Recorder) Intent(d *agent.Decision, a *agent.Attempt) {
	line := newPressureLine(d)
	line.VictimLine = newVictimLine(a)
	message := messageIntent
	switch {
	case a.Past != nil:
		message, line.Budget = messageDelete, a.Past.Name
	case a.Escalates:
		message = messageEscalate
	}
	r.logger.Info(message, zap.Inline((*intentLine)(&line)))
}

// Decision writes a decision down everywhere. It keeps nothing that belongs to
// the decision.
func (r *Recorder) Decision(d *agent.Decision) {
	line := newLine(d)
	if entry := r.logger.Check(levelOf(d), messageDecision); entry != nil {
		entry.Write(zap.Inline(&line))
	}
	r.metrics.decided(d)
	r.ring.add(line)
	r.writeEvents(d)
}

// levelOf returns warn for what somebody should look at: a decision that could
// not be carried out, or that could not be made.
func levelOf(d *agent.Decision) zapcore.Level {
	if d.Verb == agent.Refused || d.BestEffort != agent.BestEffortNone {
		return zapcore.WarnLevel
	}
	switch d.Hold {
	case agent.HoldIncomplete, agent.HoldPodsUnsynced, agent.HoldUsageUnknown, agent.HoldUnheard, agent.HoldNoCandidates,
		agent.HoldUseless, agent.HoldBudgetUnknown:
		return zapcore.WarnLevel
	case agent.HoldNone, agent.HoldOnItsWay, agent.HoldSettling, agent.HoldSettleWindow, agent.HoldRecovered,
		agent.HoldBackingOff, agent.HoldOwners, agent.HoldJitter, agent.HoldLimited, agent.HoldNoSlot:
		return zapcore.InfoLevel
	default:
		return zapcore.InfoLevel
	}
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

// noteState logs a signal whose state has changed. Of the first sample only what
// could not be read is news, and what a threshold asks for and the node does not have.
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
			level = zapcore.WarnLevel // no default asks for it: somebody waits for this threshold in vain
		}
		r.logger.Log(level, messageAbsent, zap.Stringer(keySignal, signal), zap.NamedError(keyError, seen.Err))
		return
	}
	if before == seen.State || !r.seen {
		return
	}
	if before == pressure.Unknown && !said {
		return // of a file that comes and goes, the log has one pair of lines a minute
	}
	if seen.State == pressure.Absent {
		r.logger.Info(messageAbsent, zap.Stringer(keySignal, signal), zap.NamedError(keyError, seen.Err))
		return
	}
	r.logger.Info(messageKnown, zap.Stringer(keySignal, signal),
		zap.Int64(keyAvailable, seen.Available), zap.Int64(keyCapacity, seen.Capacity))
}

// noteFault logs a signal that is unknown: once for each reason, and about once a minute
// where the reason changes or the signal comes and goes.
func (r *Recorder) noteFault(signal pressure.Signal, err error) {
	r.metrics.signalReads[signal].Inc()
	f := &r.faults[signal]
	if text := fmt.Sprint(err); text != f.text {
		*f = fault{text: text}
	}
	if f.said {
		return
	}
	if repeats, say := r.paceLocked(messageUnknown + signal.String()); say {
		f.said = true
		r.logger.Warn(messageUnknown, zap.Stringer(keySignal, signal), zap.NamedError(keyError, err), zap.Int(keyRepeats, repeats))
	}
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
	r.logger.Warn(messageBegan,
		zap.Stringer(keySignal, p.Threshold.Signal), zap.String(keyUnit, string(p.Threshold.Signal.Unit())),
		zap.String(keyKind, p.Threshold.Kind()), zap.Stringer(keyThreshold, p.Threshold.Quantity),
		zap.Int64(keyAvailable, p.Observed.Available), zap.Int64(keyCapacity, p.Observed.Capacity),
		zap.Int64(keyLine, p.Line), zap.Int64(keyTarget, p.Target), zap.Time(keySince, p.Since.UTC()),
		zap.Inline(forecastFields{secondsTo(p.Forecast, p.Forecast.After), secondsTo(p.Forecast, p.Forecast.Exhausted), p.GraceCut}))
}

func (r *Recorder) ended(signal pressure.Signal, kind int, now time.Time) {
	since := r.since[signal][kind]
	r.since[signal][kind] = time.Time{}
	r.held[signal][kind] = agent.HoldNone
	r.metrics.diskUsed(signal, nil)
	r.logger.Info(messageEnded, zap.Stringer(keySignal, signal), zap.String(keyKind, kindName(kind)),
		zap.Time(keySince, since.UTC()), zap.Float64(keyDuration, now.Sub(since).Seconds()))
}

// Tick notes that the loop has made a round.
func (r *Recorder) Tick(started time.Time, took time.Duration) { r.metrics.ticked(started, took) }

// Ledger notes who is on the way out now.
func (r *Recorder) Ledger(now time.Time, bookings []evict.Booking) {
	stuck := 0
	for i := range bookings {
		if bookings[i].Stuck(now) {
			stuck++
		}
	}
	r.metrics.onTheirWay.Set(float64(len(bookings)))
	r.metrics.stuck.Set(float64(stuck))
}

// Settings notes the policy that is in force, at start and after each change.
func (r *Recorder) Settings(dryRun bool, thresholds []pressure.Threshold) {
	r.metrics.dryRun.Set(number(dryRun))
	r.signals.setThresholds(thresholds)
}

// WatchAge tells where to read how long ago the watch of the node's pods last
// delivered anything; it answers false when it never has. It is asked at each
// scrape.
func (r *Recorder) WatchAge(age func() (time.Duration, bool)) { r.signals.setAge(age) }

// Config notes an attempt to apply a changed configuration file; err is why it
// was refused.
func (r *Recorder) Config(applied bool, err error) {
	r.metrics.reloaded(applied)
	if applied {
		r.logger.Info(messageApplied)
		return
	}
	r.logger.Error(messageRefused, zap.NamedError(keyError, err))
}

// ReadError counts a reading that failed, by one of [Sources], and logs it about
// once a minute. Failed readings of signals are counted by [Recorder.Sample].
func (r *Recorder) ReadError(source string, err error) {
	r.metrics.readError(source)
	if repeats, say := r.pace(source); say {
		r.logger.Warn(messageReadError, zap.String(keySource, source),
			zap.NamedError(keyError, err), zap.Int(keyRepeats, repeats))
	}
}

// WatchError counts a failure to list or watch the node's pods and logs it about
// once a minute.
func (r *Recorder) WatchError(err error) {
	r.metrics.watchErrors.Inc()
	if repeats, say := r.pace(messageWatch); say {
		r.logger.Warn(messageWatch, zap.NamedError(keyError, err), zap.Int(keyRepeats, repeats))
	}
}

// pace reports whether a failure is to be logged, and how many before it were
// not.
func (r *Recorder) pace(what string) (int, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.paceLocked(what)
}

func (r *Recorder) paceLocked(what string) (int, bool) {
	now := r.now()
	p := r.quiet[what]
	if p == nil {
		r.quiet[what] = &pause{said: now}
		return 0, true
	}
	if now.Sub(p.said) < sayAgainAfter {
		p.repeats++
		return 0, false
	}
	repeats := p.repeats
	p.said, p.repeats = now, 0
	return repeats, true
}
