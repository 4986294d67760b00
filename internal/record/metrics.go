package record

import (
	"runtime"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/evictd/evictd/internal/acting"
	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/measure"
	"github.com/evictd/evictd/internal/taint"
	"github.com/evictd/evictd/pkg/evict"
	"github.com/evictd/evictd/pkg/pressure"
)

// metrics are what is counted and set. The functions below are their table, with a row for each
// field, and [scraped] has those that are read when they are scraped. docs/metrics.md is generated from both.
type metrics struct {
	evictions, holds, escalations, failures, reloads, stalls *prometheus.CounterVec
	tick, reaction, request, terminations                    *prometheus.HistogramVec
	lastTick, lastReload, confined, dryRun, dryRunReason     *prometheus.GaugeVec
	inFlight, stuck, blocked, misconfigured                  *prometheus.GaugeVec
	wakeups, kubeletFirst                                    *prometheus.GaugeVec
}

func newMetrics(registerer prometheus.Registerer, version string) *metrics {
	m, t := &metrics{}, table{promauto.With(registerer)}
	m.ofDecisions(t)
	m.ofVictims(t)
	m.ofItself(t)
	m.confined.Reset()                    // not known yet
	m.lastReload.WithLabelValues().Set(1) // a process that runs has applied its file
	build := t.gauge("build_info", "1, with the version as labels.", label{"version"}, label{"go_version"})
	build.WithLabelValues(version, runtime.Version()).Set(1)
	return m
}

// ofDecisions is the table of what is decided, and of what becomes of it.
func (m *metrics) ofDecisions(t table) {
	signal, outcome := labelOf("signal", pressure.Signals()...), labelOf("outcome", evict.Outcomes()...)
	m.evictions = t.counter("evictions_total", "Eviction requests; one without a response counts as Unknown, and once more when it is known.", signal, outcome)
	m.holds = t.counter("holds_total", "Decisions to evict no pod although a threshold holds; a hold that goes on every 30 seconds.", signal, labelOf("hold", decide.Holds()...))
	m.escalations = t.counter("escalations_total", "Requests to shorten the grace period of an overdue victim; not in evictd_evictions_total.", outcome)
	m.blocked = t.gauge("pods_blocked_by_budget", "Pods in back-off, of 5 minutes at most, because a PodDisruptionBudget blocks them.")
	m.misconfigured = t.gauge("pods_misconfigured", "Pods in back-off, of 10 minutes at most, because more than one PodDisruptionBudget selects them.")
	m.reaction = t.histogram("reaction_seconds", "From the sample that a decision rests on to its first eviction request.",
		[]float64{.001, .0025, .005, .01, .015, .025, .05, .1, .25, .5, 1, 2.5, 5, 10})
	m.request = t.histogram("eviction_request_duration_seconds", "How long the API server took to answer an eviction request.",
		[]float64{.005, .01, .025, .05, .1, .25, .5, 1, 5, 10, 34}, outcome) // it ends at the API server's own limit
}

// ofVictims is the table of the pods in flight, and of the node's own state.
func (m *metrics) ofVictims(t table) {
	source := labelOf("source", pressure.WakeNode, pressure.WakeKubepods)
	m.inFlight = t.gauge("victims_in_flight", "Pods that are ending and relied on: evictd's victims, and those that others end.")
	m.stuck = t.gauge("victims_stuck", "Of evictd_victims_in_flight, those past their deadline. They are not relied on.")
	m.terminations = t.histogram("victim_termination_seconds", "From the acceptance of an eviction to the pod's end; overran is after its grace period and 15 s.",
		[]float64{.5, 1, 2.5, 5, 10, 20, 30, 35, 45, 60, 75, 120, 300, 600, 1800, 3600}, labelOf("overran", false, true))
	m.stalls = t.counter("stall_events_total", "Times the kernel woke the loop because tasks waited for memory, by what it watches.", source)
	m.wakeups = t.gauge("wakeups", "1 while the kernel wakes the loop when tasks wait for memory; 0 while there is pacing alone.", source)
	m.kubeletFirst = t.gauge("kubelet_acts_first", "1 when by the two configurations the kubelet would evict for the signal first, else 0.", label{"signal"})
}

// ofItself is the table of what evictd says of itself.
func (m *metrics) ofItself(t table) {
	m.tick = t.histogram("tick_duration_seconds", "How long one tick took: read the node, judge, decide. Requests are sent beside it.",
		[]float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, 1})
	m.lastTick = t.gauge("last_tick_timestamp_seconds", "When the last tick ended, in seconds since the epoch.")
	m.dryRun = t.gauge("dry_run", "1 when evictions are sent as server-side dry runs, 0 when evictd acts.")
	m.dryRunReason = t.gauge("dry_run_reason", "1 for why evictd does not act, 0 for the others; Stopped is by the ConfigMap evictd-stop.", labelOf("reason", acting.Reasons()...))
	m.reloads = t.counter("config_reloads_total", "Attempts to apply a changed configuration file.", labelOf("result", resultSuccess, resultFailure))
	m.lastReload = t.gauge("config_last_reload_successful", "1 when the configuration file as it is now is in force, 0 when it was refused.")
	m.confined = t.gauge("confined", "1 when the admission policies confine evictd to its node, else 0; checked once after the start.")
	m.failures = t.counter("failures_total", "Readings and writings that failed, by what was read or written.",
		labelOf("source", string(pressure.ProcSource), string(pressure.CgroupSource), string(pressure.FilesystemSource),
			measure.SourceUsage, measure.SourceDisk, measure.SourceImages, FailedHost, FailedWatch, FailedState, FailedRecord, taint.Failure))
}

// decided counts a decision, with its requests and their answers.
func (m *metrics) decided(d *decide.Decision) {
	signal := d.Pressure.Threshold.Signal.String()
	if d.Verb() == decide.Held {
		m.holds.WithLabelValues(signal, string(d.Hold)).Inc()
	}
	for i := range d.Attempts {
		a, outcome := &d.Attempts[i], string(d.Attempts[i].Result.Outcome)
		if a.Escalates {
			m.escalations.WithLabelValues(outcome).Inc()
		} else {
			m.evictions.WithLabelValues(signal, outcome).Inc()
		}
		if !a.Result.Sent.IsZero() { // the others resolve a request that was sent before
			m.request.WithLabelValues(outcome).Observe(a.Result.Took.Seconds())
		}
	}
	if reaction := reactionOf(d); reaction != nil {
		m.reaction.WithLabelValues().Observe(*reaction)
	}
}
