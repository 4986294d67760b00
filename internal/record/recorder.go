package record

import (
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/evictd/evictd/internal/acting"
	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/nodepods"
	"github.com/evictd/evictd/pkg/pressure"
)

// Settings are what [New] needs besides the places to write to.
type Settings struct {
	// NodeName is the node evictd runs on.
	NodeName string
	// Version is the program's version, for evictd_build_info.
	Version string
	// Self is evictd's own pod; the zero value where it runs in none.
	Self nodepods.Self
	// Now is the clock, for the pace of log lines alone.
	Now func() time.Time
	// MemoryUsed returns what uses the node's memory, and OOMKills how many processes the kernel
	// has killed because of missing memory since boot. They are called at each scrape; when one is
	// nil its metric is missing.
	MemoryUsed func() (decide.Breakdown, error)
	OOMKills   func() (int64, error)
}

// Recorder writes down what the agent does. Its methods may be called from any
// goroutine; none waits for the API server.
type Recorder struct {
	logger  *zap.Logger
	events  EventWriter
	node    string
	self    nodepods.Self
	metrics *metrics
	signals *signals
	ring    *ring
	pace    pace

	mu     sync.Mutex // guards all below
	seen   bool
	states [pressure.SignalCount]pressure.State
	faults [pressure.SignalCount]fault
	since  [pressure.SignalCount][kindCount]time.Time // of those that hold
	holds  [pressure.SignalCount][kindCount]bool
	held   [pressure.SignalCount][kindCount]decide.Hold // the last decision's, for Events on the node
	acting *acting.State                                // the last one; nil before
	stuck  map[string]bool                              // the victims of which that was said, by UID
}

// New returns a recorder whose metrics are registered. It panics when they cannot be: their
// names are constants.
func New(logger *zap.Logger, registerer prometheus.Registerer, events EventWriter, settings Settings) *Recorder {
	r := &Recorder{
		logger: logger, events: events, node: settings.NodeName, self: settings.Self,
		metrics: newMetrics(registerer, settings.Version), signals: newSignals(), ring: &ring{},
		pace: pace{now: settings.Now, failures: map[string]*failure{}}, stuck: map[string]bool{},
	}
	registerer.MustRegister(r.signals, newHost(&settings))
	return r
}

// Decisions serves the last decisions as JSON, the newest first.
func (r *Recorder) Decisions() http.Handler { return r.ring }

// Intent writes the line before a request is sent: if the process dies before the response, the
// line names the pod and the reason.
func (r *Recorder) Intent(d *decide.Decision, a *decide.Attempt) {
	line := newIntentLine(d)
	line.VictimLine = newVictimLine(a)
	message := messageIntent
	switch {
	case a.Bypassed != nil:
		message, line.Budget = messageDelete, a.Bypassed.Name
	case a.Escalates:
		message = messageEscalate
	}
	r.logger.Info(message, inline(&line))
}

// Decision writes a decision down everywhere. It keeps nothing that belongs to
// the decision.
func (r *Recorder) Decision(d *decide.Decision) {
	line := newLine(d)
	r.logger.Log(levelOf(d), messageDecision, inline(&line))
	r.metrics.decided(d)
	r.ring.add(line)
	r.writeEvents(d)
}

// levelOf returns warn for decisions that need attention: those that could not be carried out, or
// could not be made.
func levelOf(d *decide.Decision) zapcore.Level {
	if d.Verb == decide.Refused || d.BestEffort != decide.BestEffortNone {
		return zapcore.WarnLevel
	}
	switch d.Hold {
	case decide.HoldIncompleteReading, decide.HoldPodsNotSynced, decide.HoldPodsStale, decide.HoldUsageUnknown, decide.HoldRequestInDoubt, decide.HoldNoCandidates,
		decide.HoldWithinRequests, decide.HoldInsufficientReclaim, decide.HoldBudgetUnknown:
		return zapcore.WarnLevel
	default:
		return zapcore.InfoLevel
	}
}

// Tick notes that the loop has made a round.
func (r *Recorder) Tick(started time.Time, took time.Duration) { r.metrics.ticked(started, took) }

// LeftAlone records how many pods are in back-off because a budget refused, or because several budgets
// select them.
func (r *Recorder) LeftAlone(blocked, misconfigured int) {
	r.metrics.blocked.Set(float64(blocked))
	r.metrics.misconfigured.Set(float64(misconfigured))
}

// InForce notes the thresholds that are in force, at start and after each change.
func (r *Recorder) InForce(thresholds []pressure.Threshold) { r.signals.setThresholds(thresholds) }

// WatchAge sets the function that returns how long ago the watch of the node's pods last delivered
// anything; it returns false when it never has. It is called at each scrape.
func (r *Recorder) WatchAge(age func() (time.Duration, bool)) { r.signals.setAge(age) }

// ReadError counts a reading that failed, by one of [Sources], and logs it about
// once a minute. Failed readings of signals are counted by [Recorder.Sample].
func (r *Recorder) ReadError(source string, err error) {
	r.metrics.readError(source)
	r.warnNowAndThen(source, messageReadError, err, zap.String(keySource, source))
}

// WatchError counts a failure to list or watch the node's pods and logs it about
// once a minute.
func (r *Recorder) WatchError(err error) {
	r.metrics.watchErrors.Inc()
	r.warnNowAndThen(messageWatch, messageWatch, err)
}
