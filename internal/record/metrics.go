package record

import (
	"runtime"
	"slices"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/evictd/evictd/internal/acting"
	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/taint"
	"github.com/evictd/evictd/pkg/evict"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
)

// candidateLabel stands for candidates where a label holds a protection: an empty label value is the
// same as no label.
const candidateLabel = "None"

// metrics are what is counted and shown. The functions below are their table, with a row for each
// field, and docs/metrics.md is generated from it.
type metrics struct {
	evictions, decisions, holds, bestEffort, escalations           *prometheus.CounterVec
	readErrors, watchErrors, apiErrors, taintErrors, stateFailures *prometheus.CounterVec
	reloads, stalls, oomKills                                      *prometheus.CounterVec
	tick, reaction, request, terminations                          *prometheus.HistogramVec
	lastTick, lastReload, build, confined, dryRun, dryRunReason    *prometheus.GaugeVec
	inFlight, stuck, blocked, misconfigured, ranked, nodeTaints    *prometheus.GaugeVec
	state, pressure, underPressure, forecast, watchAge, wakeups    *prometheus.GaugeVec
	memoryUsed, kubeletRead, kubeletFirst                          *prometheus.GaugeVec
	available, capacity, line, diskUsed                            map[string]*prometheus.GaugeVec   // by unit
	reclaimExpected, reclaimActual                                 map[string]*prometheus.CounterVec // by unit

	collector
}

func newMetrics(version string) *metrics {
	m := &metrics{}
	m.ofDecisions()
	m.ofVictims()
	m.ofNode()
	m.ofItself()
	for _, o := range evict.Outcomes() {
		if o.Accepted() { // in a dry run, or in none
			impossible := prometheus.Labels{"outcome": string(o), "dry_run": strconv.FormatBool(!o.Simulated())}
			m.evictions.DeletePartialMatch(impossible)
			m.escalations.DeletePartialMatch(impossible)
		}
	}
	for _, o := range []evict.Outcome{evict.Deleted, evict.WouldDelete} { // no victim is deleted
		m.escalations.DeletePartialMatch(prometheus.Labels{"outcome": string(o)})
	}
	m.confined.Reset()                    // not known yet
	m.lastReload.WithLabelValues().Set(1) // a process that runs has applied its file
	m.build.WithLabelValues(version, runtime.Version()).Set(1)
	return m
}

// ofDecisions is the table of what is decided, and of what becomes of it.
func (m *metrics) ofDecisions() {
	signal, outcome, dryRun := labelOf("signal", pressure.Signals()...), labelOf("outcome", evict.Outcomes()...), labelOf("dry_run", false, true)
	hold, result, protection := labelOf("hold", decide.Holds()...), labelOf("result", decide.BestEfforts()...), append(rank.Protections(), candidateLabel)
	m.evictions = m.counter("evictions_total", "Eviction requests; one without a response counts as Unknown, and once more when it is known.", signal, outcome, dryRun)
	m.decisions = m.counter("decisions_total", "Decisions by their result.", signal, labelOf("verb", decide.Verbs()...))
	m.holds = m.counter("holds_total", "Decisions to evict no pod although a threshold holds; a hold that goes on every 30 seconds.", signal, hold)
	m.bestEffort = m.counter("best_effort_total", "Decisions that might bypass a PodDisruptionBudget by disruptionBudgets: bestEffort.", result, dryRun)
	m.escalations = m.counter("escalations_total", "Requests to shorten the grace period of an overdue victim; not in evictd_evictions_total.", outcome, dryRun)
	m.ranked = m.gauge("ranked_pods", "Pods of the last ranking by what protected them; None are the candidates.", labelOf("protection", protection...))
	m.diskUsed = inUnits(m.gauge, "disk_used_%s", "What a disk was used by at the last decision about it; lower bounds without the part Other.", disks(), label{name: "part"})
	m.blocked = m.gauge("pods_blocked_by_budget", "Pods in back-off, of 5 minutes at most, because a PodDisruptionBudget blocks them.")
	m.misconfigured = m.gauge("pods_misconfigured", "Pods in back-off, of 10 minutes at most, because more than one PodDisruptionBudget selects them.")
	m.reaction = m.histogram("reaction_seconds", "From the sample that a decision rests on to its first eviction request.",
		[]float64{.001, .0025, .005, .01, .015, .025, .05, .1, .25, .5, 1, 2.5, 5, 10})
	m.request = m.histogram("eviction_request_duration_seconds", "How long the API server took to answer an eviction request.",
		[]float64{.005, .01, .025, .05, .1, .25, .5, 1, 5, 10, 34}, outcome) // it ends at the API server's own limit
}

// ofVictims is the table of the pods in flight, and of what their end gives back.
func (m *metrics) ofVictims() {
	m.inFlight = m.gauge("victims_in_flight", "Pods in flight: evictd's victims, and pods that a request found deleted.")
	m.stuck = m.gauge("victims_stuck", "Of evictd_victims_in_flight, those past their deadline. They are not relied on.")
	m.terminations = m.histogram("victim_termination_seconds", "From the acceptance of an eviction to the pod's end; overran is after its grace period and 15 s.",
		[]float64{.5, 1, 2.5, 5, 10, 20, 30, 35, 45, 60, 75, 120, 300, 600, 1800, 3600}, labelOf("overran", false, true))
	m.reclaimExpected = inUnits(m.counter, "reclaim_expected_%s_total", "What victims held before their end, where it is known what the node got back.", measured())
	m.reclaimActual = inUnits(m.counter, "reclaim_actual_%s_total", "By how much their end let grow what is available and what the other pods hold.", measured())
	m.nodeTaints = m.gauge("node_taints", "1 while the node carries the taint of evictd's own, as far as evictd knows.", labelOf("taint", taint.All.Keys()...))
}

// ofNode is the table of what the node, its kernel and its kubelet say.
func (m *metrics) ofNode() {
	signals, signal, source := pressure.Signals(), label{name: "signal"}, labelOf("source", pressure.WakeSources()...)
	m.available = inUnits(m.scraped, "signal_available_%s", "What is left of the signal.", signals)
	m.capacity = inUnits(m.scraped, "signal_capacity_%s", "What there is of the signal in all.", signals)
	m.line = inUnits(m.scraped, "threshold_line_%s", "The amount below which the threshold is met.", signals, label{name: "kind"})
	m.state = m.scraped("signal_state", "1 for the state of the signal; Absent: the node has no such signal.", signal, label{name: "state"})
	m.pressure = m.scraped("pressure", "1 while a threshold of the signal holds, else 0.", signal, label{name: "kind"})
	m.underPressure = m.scraped("under_pressure", "1 while a threshold of the signal is met, grace period or not, or was within the transition period.", signal)
	m.forecast = m.scraped("forecast_seconds", "When the signal meets its hard threshold at the rate of the last seconds; +Inf is never.", signal)
	m.memoryUsed = m.scraped("memory_used_bytes", "What the node's memory is used by; together the parts are all that is not free.", label{name: "part"})
	m.oomKills = m.counter("oom_kills_total", "Processes that the kernel has killed for want of memory since the node booted.")
	m.emptied = append(m.emptied, m.oomKills.MetricVec)
	m.stalls = m.counter("stall_events_total", "Times the kernel woke the loop because tasks waited for memory, by what it watches.", source)
	m.wakeups = m.gauge("wakeups", "1 while the kernel wakes the loop when tasks wait for memory; 0 while there is pacing alone.", source)
	m.kubeletRead = m.gauge("kubelet_config_read", "1 when the kubelet's configuration could be read, and was compared with evictd's.")
	m.kubeletFirst = m.gauge("kubelet_acts_first", "1 when by the two configurations the kubelet would evict for the signal first, else 0.", signal)
}

// ofItself is the table of what evictd says of itself.
func (m *metrics) ofItself() {
	m.tick = m.histogram("tick_duration_seconds", "How long one tick took: read the node, judge, decide. Requests are sent beside it.",
		[]float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, 1})
	m.lastTick = m.gauge("last_tick_timestamp_seconds", "When the last tick ended, in seconds since the epoch.")
	m.dryRun = m.gauge("dry_run", "1 when evictions are sent as server-side dry runs, 0 when evictd acts.")
	m.dryRunReason = m.gauge("dry_run_reason", "1 for why evictd does not act, 0 for the others; Stopped is by the ConfigMap evictd-stop.", labelOf("reason", acting.Reasons()...))
	m.reloads = m.counter("config_reloads_total", "Attempts to apply a changed configuration file.", labelOf("result", resultSuccess, resultFailure))
	m.lastReload = m.gauge("config_last_reload_successful", "1 when the configuration file as it is now is in force, 0 when it was refused.")
	m.confined = m.gauge("confined", "1 when the admission policies confine evictd to its node, else 0; checked once after the start.")
	m.readErrors = m.counter("read_errors_total", "Readings that failed, by what was read.", labelOf("source", Sources()...))
	m.watchErrors = m.counter("watch_errors_total", "Failures to list or watch the node's pods.")
	m.watchAge = m.scraped("watch_age_seconds", "How long ago the API server last delivered anything on the watch of the node's pods.")
	m.apiErrors = m.counter("api_errors_total", "Requests to the API server without success, each attempt, refusals included; None is no answer.",
		labelOf("request", APIRequests()...), labelOf("code", codes()...))
	m.taintErrors = m.counter("taint_errors_total", "Failures to set or remove the node's taint; they are tried again.")
	m.stateFailures = m.counter("state_write_failures_total", "Writes of the state file that failed, or took more than 50 ms.")
	m.build = m.gauge("build_info", "1, with the version as labels.", label{name: "version"}, label{name: "go_version"})
}

func disks() []pressure.Signal {
	return slices.DeleteFunc(pressure.Signals(), func(s pressure.Signal) bool { return !s.OnDisk() })
}

// measured are the signals of which it can be known what a victim's end frees.
func measured() []pressure.Signal {
	return slices.DeleteFunc(pressure.Signals(), func(s pressure.Signal) bool { return !s.ReclaimMeasured() })
}

// decided counts a decision.
func (m *metrics) decided(d *decide.Decision) {
	signal := d.Pressure.Threshold.Signal.String()
	m.decisions.WithLabelValues(signal, string(d.Verb)).Inc()
	if d.Verb == decide.Held {
		m.holds.WithLabelValues(signal, string(d.Hold)).Inc()
	}
	if d.BestEffort != decide.BestEffortNone {
		m.bestEffort.WithLabelValues(string(d.BestEffort), strconv.FormatBool(d.DryRun)).Inc()
	}
	for i := range d.Attempts {
		m.attempted(signal, &d.Attempts[i], d.DryRun)
	}
	if reaction := reactionOf(d); reaction != nil {
		m.reaction.WithLabelValues().Observe(*reaction)
	}
	if len(d.Ranking.Candidates)+len(d.Ranking.Protected) > 0 {
		counts := protectedOf(&d.Ranking)
		for _, protection := range rank.Protections() {
			m.ranked.WithLabelValues(string(protection)).Set(float64(counts[protection]))
		}
		m.ranked.WithLabelValues(candidateLabel).Set(float64(len(d.Ranking.Candidates)))
	}
	m.breakDown(d.Pressure.Threshold.Signal, d.Breakdown)
}

// attempted counts one request and its answer.
func (m *metrics) attempted(signal string, a *decide.Attempt, dryRun bool) {
	outcome := string(a.Result.Outcome)
	if a.Escalates {
		m.escalations.WithLabelValues(outcome, strconv.FormatBool(dryRun)).Inc()
	} else {
		m.evictions.WithLabelValues(signal, outcome, strconv.FormatBool(dryRun)).Inc()
	}
	if !a.Result.Sent.IsZero() { // the others resolve a request that was sent before
		m.request.WithLabelValues(outcome).Observe(a.Result.Took.Seconds())
	}
}

// breakDown shows what a disk is used by, and removes what is not known of it.
func (m *metrics) breakDown(signal pressure.Signal, b decide.Breakdown) {
	if !signal.OnDisk() {
		return
	}
	unit, _ := unitOf(signal)
	for _, part := range decide.Parts() {
		if amount, known := b[part]; known {
			m.diskUsed[unit].WithLabelValues(signal.String(), string(part)).Set(float64(amount))
		} else {
			m.diskUsed[unit].DeleteLabelValues(signal.String(), string(part))
		}
	}
}
