// Package record answers: what did evictd do, and why?
//
// It turns the agent's reports into four outputs for four readers: one log line for each decision
// (what happened last night), Events on pods (their owners) and on the node, metrics (alerts and
// dashboards) and the last decisions for /debug/status (what happens now). All four are made from
// the same values, in the same words.
//
// It decides nothing and sends nothing but Events, and those through a queue: no method waits for
// the API server. An unknown reading is missing from the metrics, never 0. Pods are named in logs
// and Events, not in metric labels.
package record

import (
	"errors"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"k8s.io/client-go/tools/record"

	"github.com/evictd/evictd/internal/acting"
	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/pkg/pressure"
)

// Settings are what [New] needs besides the places to write to.
type Settings struct {
	// NodeName is the node evictd runs on.
	NodeName string
	// Version is the program's version, for evictd_build_info.
	Version string
	// Now is the clock, for the pace of log lines and of Events of kills alone.
	Now func() time.Time
	// Host says what uses the node's memory, for decisions about that memory; nil does not.
	Host Host
	// OOMKills returns how many processes the kernel has killed because of missing memory since boot, and
	// WatchAge how long ago the API server last delivered anything on the watch of the node's pods; false
	// when it never has. They are called at each scrape.
	OOMKills func() (int64, error)
	WatchAge func() (time.Duration, bool)
}

// Recorder writes down what the agent does. Its methods may be called from any
// goroutine; none waits for the API server.
type Recorder struct {
	settings Settings
	logger   *zap.Logger
	events   record.EventRecorder
	metrics  *metrics

	mu     sync.Mutex // guards all below
	said   once
	acting *acting.State        // the last that was known; nil before
	stuck  []string             // UIDs of the victims that are
	killed map[string]time.Time // when a pod last got an Event of a kill, by its UID
	kept   []kept               // the last decisions, the oldest first

	sample     pressure.Sample // its zero value is unknown everywhere
	forecasts  [pressure.SignalCount]pressure.Forecast
	pressures  []pressure.Pressure // those that hold
	thresholds []pressure.Threshold
}

// New returns a recorder whose metrics are registered. It panics when they cannot be: their
// names are constants. What takes the Events, as [Events] does, must not wait for the API server.
func New(logger *zap.Logger, registerer prometheus.Registerer, events record.EventRecorder, settings Settings) *Recorder {
	r := &Recorder{settings: settings, logger: logger, events: events, said: once{}, killed: map[string]time.Time{}}
	r.metrics = newMetrics(registerer, settings.Version)
	registerer.MustRegister(scraped{r})
	return r
}

// Intent writes the line before a request is sent: if the process dies before the response, the
// line names the pod and the reason.
func (r *Recorder) Intent(d *decide.Decision, a *decide.Attempt) {
	message := "sending an eviction request"
	switch {
	case a.Bypassed != nil:
		message = "deleting a pod that its budget blocks"
	case a.Escalates:
		message = "asking again with a shorter grace period"
	}
	line := append(situation(d, nil), victimOf(a)...).with("of", len(d.Ranking.Candidates))
	r.logger.Info(message, line.some("budget", budgetOf(a))...)
}

// levelOf returns warn for decisions that need attention: those that could not be carried out, or
// could not be made.
func levelOf(d *decide.Decision) zapcore.Level {
	victim := d.Victim()
	if warns, _ := attention(d.Hold); warns || d.Verb() == decide.Refused || victim != nil && victim.Bypassed != nil {
		return zapcore.WarnLevel
	}
	return zapcore.InfoLevel
}

// attention returns whether a hold is a warning in the log, and whether the node gets an Event: no pod
// can be evicted.
func attention(h decide.Hold) (warns, node bool) {
	switch h {
	case decide.HoldNoCandidates, decide.HoldWithinRequests, decide.HoldIncompleteReading, decide.HoldInsufficientReclaim, decide.HoldBudgetUnknown:
		return true, true
	case decide.HoldPodsNotSynced, decide.HoldPodsStale, decide.HoldUsageUnknown, decide.HoldRequestInDoubt:
		return true, false
	default:
		return false, h == decide.HoldImagesFirst
	}
}

// Tick notes that the loop has made a round.
func (r *Recorder) Tick(started time.Time, took time.Duration) {
	r.metrics.tick.WithLabelValues().Observe(took.Seconds())
	r.metrics.lastTick.WithLabelValues().Set(float64(started.Add(took).UnixMilli()) / 1000)
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
		r.noteState(signal, &sample.Observations[signal])
	}
	r.sample, r.forecasts = *sample, verdict.Forecasts
	r.pressures = append(r.pressures[:0], verdict.Pressures...) // those of the verdict are the agent's
}

// noteState logs that a signal cannot be read, as every failure, and that the node does not have one that a
// threshold requires, which is no error.
func (r *Recorder) noteState(signal pressure.Signal, seen *pressure.Observation) {
	level, message, why := zapcore.WarnLevel, "signal is unknown", zap.Error(seen.Err)
	switch {
	case seen.State == pressure.Unknown:
		r.metrics.failures.WithLabelValues(string(signal.Source())).Inc()
	case seen.State == pressure.Absent && r.sample.Of(signal).State != pressure.Absent && !errors.Is(seen.Err, pressure.ErrUnasked):
		level, message, why = zapcore.InfoLevel, "signal became absent", zap.NamedError("detail", seen.Err)
	default:
		return
	}
	if r.said.say(subject{message, signal}, "", r.settings.Now()) {
		r.logger.Log(level, message, zap.Stringer("signal", signal), why)
	}
}
