package record

import (
	"runtime"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/evictd/evictd/internal/acting"
	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/measure"
	"github.com/evictd/evictd/pkg/evict"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
)

// sourceOther is the label value of a source that has none of its own.
const sourceOther = "Other"

// SourceHost is what the host's memory is used by besides the pods.
const SourceHost = "Host"

// Sources returns the names of sources that [Recorder.ReadError] counts by; any
// other name is counted as "Other".
func Sources() []string {
	return []string{
		string(pressure.ProcSource), string(pressure.CgroupSource), string(pressure.FilesystemSource),
		measure.SourceUsage, measure.SourceDisk, measure.SourceImages, SourceHost, sourceOther,
	}
}

// candidateLabel stands for candidates where a label holds a protection: an empty
// label value is the same as no label.
const candidateLabel = "None"

// The values of the result label.
const (
	resultSuccess = "Success"
	resultFailure = "Failure"
)

// metrics are the counters and gauges that are set when something happens. The
// node's signals have a collector of their own, see signals.
type metrics struct {
	evictions     *prometheus.CounterVec
	decisions     *prometheus.CounterVec
	holds         *prometheus.CounterVec
	bestEffort    *prometheus.CounterVec
	escalations   *prometheus.CounterVec
	tick          prometheus.Histogram
	lastTick      prometheus.Gauge
	reaction      prometheus.Histogram
	request       *prometheus.HistogramVec
	inFlight      prometheus.Gauge
	stuck         prometheus.Gauge
	ranked        *prometheus.GaugeVec
	disk          vectors[*prometheus.GaugeVec]
	reloads       *prometheus.CounterVec
	lastReload    prometheus.Gauge
	readErrors    *prometheus.CounterVec
	watchErrors   prometheus.Counter
	dryRun        prometheus.Gauge
	dryRunReason  *prometheus.GaugeVec
	build         *prometheus.GaugeVec
	wakes         wakes
	endings       endings
	blocked       prometheus.Gauge
	misconfigured prometheus.Gauge
	apiErrors     *prometheus.CounterVec
	stateFailures *prometheus.CounterVec
	optIns        optIns
	confined      *prometheus.GaugeVec // of one series, which is missing while it is not known

	kubeletRead     prometheus.Gauge
	kubeletFirst    *prometheus.GaugeVec
	kubeletHeadroom *prometheus.GaugeVec // of one series, which is missing while it is not known
}

func newMetrics(registerer prometheus.Registerer, version string) *metrics {
	by := registrar{promauto.With(registerer)}
	m := &metrics{
		evictions:   by.counters("evictions_total", "Eviction requests by outcome. A request without a response counts as Unknown, and once more when its outcome is known.", "signal", "outcome", "dry_run"),
		decisions:   by.counters("decisions_total", "Decisions by their result.", "signal", "verb"),
		holds:       by.counters("holds_total", "Decisions to evict no pod although a threshold holds, by reason. A hold that goes on is recorded about every 30 seconds.", "signal", "hold"),
		bestEffort:  by.counters("best_effort_total", "Decisions that might bypass a PodDisruptionBudget, because disruptionBudgets is bestEffort and no candidate could be evicted, by result.", "result", "dry_run"),
		escalations: by.counters("escalations_total", "Requests to shorten the grace period of a victim that should have ended by now, by outcome. Not included in evictd_evictions_total.", "outcome", "dry_run"),
		tick:        by.histogram("tick_duration_seconds", "How long one tick took: read the node, judge, decide. Requests are sent beside it.", tickBuckets()),
		lastTick:    by.gauge("last_tick_timestamp_seconds", "When the last tick ended, in seconds since the epoch."),
		reaction:    by.histogram("reaction_seconds", "From the sample that a decision rests on to its first eviction request.", reactionBuckets()),
		request:     by.histograms("eviction_request_duration_seconds", "How long the API server took to answer an eviction request.", requestBuckets(), "outcome"),
		inFlight:    by.gauge("victims_in_flight", "Pods in flight: evictd's victims, and pods that a request found deleted."),
		stuck:       by.gauge("victims_stuck", "Of evictd_victims_in_flight, those that should have ended by now and have not. They are not relied on."),
		ranked:      by.gauges("ranked_pods", "Pods of the last ranking by what protected them; the value None stands for candidates.", "protection"),
		disk: newVectors(pressure.Signal.OnDisk, func(unit string) *prometheus.GaugeVec {
			return by.gauges("disk_used_"+unit, "What a disk was used by at the last decision about it; missing without pressure. Without the part Other not all pods are measured, and the parts are lower bounds.", "signal", "part")
		}),
		reloads:       by.counters("config_reloads_total", "Attempts to apply a changed configuration file.", "result"),
		lastReload:    by.gauge("config_last_reload_successful", "1 when the configuration file as it is now is in force, 0 when it was refused."),
		readErrors:    by.counters("read_errors_total", "Readings that failed, by what was read.", "source"),
		watchErrors:   by.counter("watch_errors_total", "Failures to list or watch the node's pods."),
		dryRun:        by.gauge("dry_run", "1 when evictions are sent as server-side dry runs, 0 when evictd acts."),
		dryRunReason:  by.gauges("dry_run_reason", "1 for the reason why evictd does not act, 0 for the others: the ConfigMap evictd-stop, the configuration, or it is not known whether that ConfigMap exists.", "reason"),
		build:         by.gauges("build_info", "1, with the version as labels.", "version", "go_version"),
		wakes:         newWakes(by),
		endings:       newEndings(by),
		blocked:       by.gauge("pods_blocked_by_budget", "Pods in back-off because a PodDisruptionBudget blocks them. Under pressure each is retried after 5 minutes at most, with up to a fifth of jitter."),
		misconfigured: by.gauge("pods_misconfigured", "Pods in back-off because more than one PodDisruptionBudget selects them: the Eviction API refuses such pods. Under pressure each is retried after 10 minutes at most, with up to a fifth of jitter."),
		apiErrors:     newAPIErrors(by),
		stateFailures: newStateFailures(by),
		optIns:        newOptIns(by),
		confined:      by.gauges("confined", "1 when the admission policies confine evictd to its node, 0 when one of them does not refuse a dry run that it must refuse. Missing while that is not known, as in a cluster of one node. Checked once, after the start."),

		kubeletRead:  by.gauge("kubelet_config_read", "1 when the kubelet's configuration could be read, and was compared with evictd's."),
		kubeletFirst: by.gauges("kubelet_acts_first", "1 when the kubelet would evict for the signal before evictd does, by the two configurations, 0 when it would not; missing for signals that were not compared.", "signal"),

		kubeletHeadroom: by.gauges("kubelet_memory_headroom_bytes", "How far the node's memory is above the kubelet's hard threshold of memory.available, by the kubelet's measure; negative below it. Missing while the threshold or the figure is not known. Read every 10 seconds."),
	}
	m.create(version)
	return m
}

func tickBuckets() []float64 {
	return []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, 1}
}

func reactionBuckets() []float64 {
	return []float64{.001, .0025, .005, .01, .015, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}
}

// requestBuckets end at the API server's own limit for an eviction, 34 seconds.
func requestBuckets() []float64 { return []float64{.005, .01, .025, .05, .1, .25, .5, 1, 5, 10, 34} }

// create creates every series that can ever exist, so that the first eviction is an increase from 0
// and not a new series, which rate() does not see.
func (m *metrics) create(version string) {
	for _, signal := range pressure.Signals() {
		name := signal.String()
		for _, verb := range decide.Verbs() {
			m.decisions.WithLabelValues(name, string(verb))
		}
		for _, hold := range decide.Holds() {
			m.holds.WithLabelValues(name, string(hold))
		}
		for _, outcome := range evict.Outcomes() {
			for _, dryRun := range []bool{false, true} {
				if possible(outcome, dryRun) {
					m.evictions.WithLabelValues(name, string(outcome), strconv.FormatBool(dryRun))
				}
			}
		}
	}
	for _, outcome := range evict.Outcomes() {
		m.request.WithLabelValues(string(outcome))
	}
	m.createForced()
	m.ranked.WithLabelValues(candidateLabel)
	for _, protection := range rank.Protections() {
		m.ranked.WithLabelValues(string(protection))
	}
	for _, source := range Sources() {
		m.readErrors.WithLabelValues(source)
	}
	for _, reason := range acting.Reasons() {
		m.dryRunReason.WithLabelValues(string(reason))
	}
	m.reloads.WithLabelValues(resultSuccess)
	m.reloads.WithLabelValues(resultFailure)
	m.lastReload.Set(1) // a process that runs has applied its file
	m.build.WithLabelValues(version, runtime.Version()).Set(1)
}

// createForced creates the series of what evictd does beyond evictions.
func (m *metrics) createForced() {
	for _, dryRun := range []bool{false, true} {
		for _, outcome := range evict.Outcomes() {
			if possible(outcome, dryRun) && outcome != evict.Deleted && outcome != evict.WouldDelete {
				m.escalations.WithLabelValues(string(outcome), strconv.FormatBool(dryRun))
			}
		}
		for _, came := range decide.BestEfforts() {
			m.bestEffort.WithLabelValues(string(came), strconv.FormatBool(dryRun))
		}
	}
}

// possible reports whether the outcome can come of a dry run, or of none.
func possible(outcome evict.Outcome, dryRun bool) bool {
	switch outcome {
	case evict.Evicted, evict.Deleted:
		return !dryRun
	case evict.WouldEvict, evict.WouldDelete:
		return dryRun
	default:
		return true
	}
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
		result := &d.Attempts[i].Result
		if d.Attempts[i].Escalates {
			m.escalations.WithLabelValues(string(result.Outcome), strconv.FormatBool(d.DryRun)).Inc()
		} else {
			m.evictions.WithLabelValues(signal, string(result.Outcome), strconv.FormatBool(d.DryRun)).Inc()
		}
		if !result.Sent.IsZero() { // the others resolve a request that was sent before
			m.request.WithLabelValues(string(result.Outcome)).Observe(result.Took.Seconds())
		}
	}
	if reaction, known := reactionOf(d); known {
		m.reaction.Observe(reaction.Seconds())
	}
	if len(d.Ranking.Candidates)+len(d.Ranking.Protected) > 0 {
		m.rankedPods(&d.Ranking)
	}
	if signal := d.Pressure.Threshold.Signal; signal.OnDisk() {
		m.diskUsed(signal, d.Breakdown)
	}
}

// diskUsed shows the breakdown of a signal of a disk, and removes what is not known of it.
func (m *metrics) diskUsed(signal pressure.Signal, b decide.Breakdown) {
	for _, part := range decide.Parts() {
		if amount, known := b[part]; known {
			m.disk.of(signal).WithLabelValues(signal.String(), string(part)).Set(float64(amount))
		} else {
			m.disk.of(signal).DeleteLabelValues(signal.String(), string(part))
		}
	}
}

func (m *metrics) rankedPods(ranking *rank.Ranking) {
	counts := protectedOf(ranking)
	for _, protection := range rank.Protections() {
		m.ranked.WithLabelValues(string(protection)).Set(float64(counts[protection]))
	}
	m.ranked.WithLabelValues(candidateLabel).Set(float64(len(ranking.Candidates)))
}

// readError counts a failed reading under one of the closed names.
func (m *metrics) readError(source string) {
	if !slices.Contains(Sources(), source) {
		source = sourceOther
	}
	m.readErrors.WithLabelValues(source).Inc()
}

func (m *metrics) reloaded(applied bool) {
	result := resultFailure
	if applied {
		result = resultSuccess
	}
	m.reloads.WithLabelValues(result).Inc()
	m.lastReload.Set(number(applied))
}

func (m *metrics) ticked(started time.Time, took time.Duration) {
	m.tick.Observe(took.Seconds())
	m.lastTick.Set(float64(started.Add(took).UnixMilli()) / 1000)
}
