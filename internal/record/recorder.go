package record

import (
	"encoding/json"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/nodepods"
	"github.com/evictd/evictd/pkg/pressure"
)

// failuresApart is how often a failure that continues is logged: a node is read up to a hundred times a
// second.
const failuresApart = time.Minute

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
	// Host has decisions about the node's memory say what uses it; nil does not.
	Host Host
	// WatchAge returns how long ago the API server last delivered anything on the watch of the node's
	// pods; false when it never has. It is called at each scrape, and may be nil too.
	WatchAge func() (time.Duration, bool)
}

// Recorder writes down what the agent does. Its methods may be called from any
// goroutine; none waits for the API server.
type Recorder struct {
	settings Settings
	logger   *zap.Logger
	events   EventWriter
	metrics  *metrics
	ring     ring
	lastID   atomic.Uint64

	mu   sync.Mutex // guards all below
	said once       // of a failure, a signal that is unknown, a hold, a threshold, a victim, a topic

	seen       bool                                 // whether there is a sample
	states     [pressure.SignalCount]pressure.State // the last that were known
	sample     pressure.Sample                      // its zero value is unknown everywhere
	under      [pressure.SignalCount]bool
	forecasts  [pressure.SignalCount]pressure.Forecast
	holding    map[threshold]time.Time // since when
	thresholds []pressure.Threshold
}

// New returns a recorder whose metrics are registered. It panics when they cannot be: their
// names are constants.
func New(logger *zap.Logger, registerer prometheus.Registerer, events EventWriter, settings Settings) *Recorder {
	r := &Recorder{
		settings: settings, logger: logger, events: events, metrics: newMetrics(settings.Version),
		said: once{}, holding: map[threshold]time.Time{},
	}
	r.metrics.read = r.scrape
	registerer.MustRegister(r.metrics)
	return r
}

// Decisions serves the last decisions as JSON, the newest first.
func (r *Recorder) Decisions() http.Handler { return &r.ring }

// LastDecisions returns the last decisions, the newest first; it is not nil.
func (r *Recorder) LastDecisions() []json.RawMessage { return r.ring.newestFirst() }

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
	r.logger.Info(message, intentLine(d, a)...)
}

// levelOf returns warn for decisions that need attention: those that could not be carried out, or
// could not be made.
func levelOf(d *decide.Decision) zapcore.Level {
	if warns, _ := attention(d.Hold); warns || d.Verb == decide.Refused || d.BestEffort != decide.BestEffortNone {
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

// news reports whether something is said of a subject now that was not said last.
func (r *Recorder) news(of any, what string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, due := r.said.say(of, what, time.Time{}, pace{})
	return due
}

// over ends what was said of a subject, and reports whether anything was.
func (r *Recorder) over(of any) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.said.end(of)
}
