package record

import (
	"fmt"
	"math"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/evictd/evictd/pkg/pressure"
)

const namespace = "evictd"

// table makes the metrics that are counted and set when something happens.
type table struct{ in promauto.Factory }

func (t table) counter(name, help string, by ...label) *prometheus.CounterVec {
	v := t.in.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, names(by))
	begin(v.MetricVec, by)
	return v
}

func (t table) gauge(name, help string, by ...label) *prometheus.GaugeVec {
	v := t.in.NewGaugeVec(prometheus.GaugeOpts{Namespace: namespace, Name: name, Help: help}, names(by))
	begin(v.MetricVec, by)
	return v
}

func (t table) histogram(name, help string, buckets []float64, by ...label) *prometheus.HistogramVec {
	v := t.in.NewHistogramVec(prometheus.HistogramOpts{Namespace: namespace, Name: name, Help: help, Buckets: buckets}, names(by))
	begin(v.MetricVec, by)
	return v
}

// begin creates every series that the labels' values make, so that the first eviction is an increase
// from 0 and not a new series, which rate() does not see.
func begin(v *prometheus.MetricVec, by []label, values ...string) {
	if len(by) == 0 {
		_, _ = v.GetMetricWithLabelValues(values...) // it fails for another number of values alone
		return
	}
	for _, value := range by[0][1:] {
		begin(v, by[1:], append(slices.Clip(values), value)...)
	}
}

// label is a label's name, and the values that it has from the start.
type label []string

// labelOf is a label with all its values; one without values has its series once they are known.
func labelOf[V any](name string, values ...V) label {
	l := label{name}
	for _, v := range values {
		l = append(l, fmt.Sprint(v))
	}
	return l
}

func names(of []label) (all []string) {
	for _, l := range of {
		all = append(all, l[0])
	}
	return all
}

// scraped are the metrics that are read when they are scraped, so that a tick costs one copy. What is not
// known has no series rather than a false figure.
type scraped struct{ *Recorder }

// Describe describes none before: which there are depends on what is known.
func (scraped) Describe(chan<- *prometheus.Desc) {}

// Collect sends every series.
func (r scraped) Collect(ch chan<- prometheus.Metric) {
	to := scrape(ch)
	if age, known := r.settings.WatchAge(); known {
		to.gauge("watch_age_seconds", "How long ago the API server last delivered anything on the watch of the node's pods, or answered a new one.", age.Seconds())
	}
	if kills, err := r.settings.OOMKills(); err == nil {
		const help = "Processes that the kernel has killed for want of memory since the node booted."
		to.send(prometheus.CounterValue, "oom_kills_total", help, float64(kills), nil)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, signal := range pressure.Signals() {
		r.figures(to, signal)
		r.state(to, signal)
	}
}

// figures sends what is known of a signal in its unit: one metric never mixes two.
func (r scraped) figures(to scrape, signal pressure.Signal) {
	seen, name, unit, per := r.sample.Of(signal), signal.String(), string(signal.Unit()), 1.
	if signal.Unit() == pressure.Microseconds {
		unit, per = "seconds", 1e6
	}
	if seen.State == pressure.Known {
		to.gauge("signal_available_"+unit, "What is left of the signal.", float64(seen.Available)/per, "signal", name)
		to.gauge("signal_capacity_"+unit, "What there is of the signal in all.", float64(seen.Capacity)/per, "signal", name)
		for i := range r.thresholds {
			if t := &r.thresholds[i]; t.Signal == signal {
				to.gauge("threshold_line_"+unit, "The amount below which the threshold is met.",
					float64(t.Quantity.Of(seen.Capacity))/per, "signal", name, "kind", t.Kind())
			}
		}
	}
}

// state sends what is thought of a signal.
func (r scraped) state(to scrape, signal pressure.Signal) {
	seen, name := r.sample.Of(signal).State, signal.String()
	for _, state := range []pressure.State{pressure.Unknown, pressure.Absent, pressure.Known} {
		to.gauge("signal_state", "1 for the state of the signal; Absent: the node has no such signal.",
			number(state == seen), "signal", name, "state", state.String())
	}
	if f := r.forecasts[signal]; f.Known {
		seconds := f.After.Seconds()
		if f.After == pressure.Never {
			seconds = math.Inf(1)
		}
		to.gauge("forecast_seconds", "When the signal meets its hard threshold at the rate of the last seconds; +Inf is never.", seconds, "signal", name)
	}
	if seen != pressure.Unknown {
		for _, t := range []pressure.Threshold{{Hard: true}, {}} {
			holds := slices.ContainsFunc(r.pressures, func(p pressure.Pressure) bool {
				return p.Threshold.Signal == signal && p.Threshold.Hard == t.Hard
			})
			to.gauge("pressure", "1 while a threshold of the signal holds, else 0.", number(holds), "signal", name, "kind", t.Kind())
		}
	}
}

// scrape takes the series of one scrape. Labels are names and values, by pairs.
type scrape chan<- prometheus.Metric

func (s scrape) gauge(name, help string, value float64, labels ...string) {
	s.send(prometheus.GaugeValue, name, help, value, labels)
}

func (s scrape) send(kind prometheus.ValueType, name, help string, value float64, labels []string) {
	by := prometheus.Labels{}
	for pair := range slices.Chunk(labels, 2) {
		by[pair[0]] = pair[1]
	}
	s <- prometheus.MustNewConstMetric(prometheus.NewDesc(namespace+"_"+name, help, nil, by), kind, value)
}

func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
