package record

import (
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/evictd/evictd/pkg/pressure"
)

const namespace = "evictd"

// collector is all metrics as one: what is known only when it is scraped is read then, before any is
// sent.
type collector struct {
	all     []*prometheus.MetricVec
	emptied []*prometheus.MetricVec // before each scrape
	read    func()
	mu      sync.Mutex // one scrape at a time
}

// Describe sends the descriptions.
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, v := range c.all {
		v.Describe(ch)
	}
}

// Collect sends every series.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, v := range c.emptied {
		v.Reset()
	}
	c.read()
	for _, v := range c.all {
		v.Collect(ch)
	}
}

func (c *collector) counter(name, help string, by ...label) *prometheus.CounterVec {
	v := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, names(by))
	c.add(v.MetricVec, by)
	return v
}

func (c *collector) gauge(name, help string, by ...label) *prometheus.GaugeVec {
	v := prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: namespace, Name: name, Help: help}, names(by))
	c.add(v.MetricVec, by)
	return v
}

// scraped is a gauge of what is read when it is scraped.
func (c *collector) scraped(name, help string, by ...label) *prometheus.GaugeVec {
	v := c.gauge(name, help, by...)
	c.emptied = append(c.emptied, v.MetricVec)
	return v
}

func (c *collector) histogram(name, help string, buckets []float64, by ...label) *prometheus.HistogramVec {
	v := prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: namespace, Name: name, Help: help, Buckets: buckets}, names(by))
	c.add(v.MetricVec, by)
	return v
}

// add creates every series that the labels' values make, so that the first eviction is an increase
// from 0 and not a new series, which rate() does not see.
func (c *collector) add(v *prometheus.MetricVec, by []label) {
	c.all = append(c.all, v)
	series := [][]string{nil}
	for _, l := range by {
		var longer [][]string
		for _, values := range series {
			for _, value := range l.values {
				longer = append(longer, append(slices.Clip(values), value))
			}
		}
		series = longer
	}
	for _, values := range series {
		_, _ = v.GetMetricWithLabelValues(values...) // it fails for another number of values alone
	}
}

// label is a label and the values that it has from the start.
type label struct {
	name   string
	values []string
}

// labelOf is a label with all its values; one without values has its series once they are known.
func labelOf[V any](name string, values ...V) label {
	l := label{name: name}
	for _, v := range values {
		l.values = append(l.values, fmt.Sprint(v))
	}
	return l
}

func names(of []label) (all []string) {
	for _, l := range of {
		all = append(all, l.name)
	}
	return all
}

// unitOf returns the base unit that is in the names of a signal's metrics, and how many of the
// signal's own unit make one.
func unitOf(signal pressure.Signal) (name string, per float64) {
	if signal.Unit() == pressure.Microseconds {
		return "seconds", 1e6
	}
	return string(signal.Unit()), 1
}

// inUnits makes a metric for each unit of the signals: one metric never mixes two.
func inUnits[V any](one func(name, help string, by ...label) V, name, help string, signals []pressure.Signal, by ...label) map[string]V {
	of, all := map[string][]pressure.Signal{}, map[string]V{}
	for _, signal := range signals {
		unit, _ := unitOf(signal)
		of[unit] = append(of[unit], signal)
	}
	for unit, those := range of {
		all[unit] = one(fmt.Sprintf(name, unit), help, append([]label{labelOf("signal", those...)}, by...)...)
	}
	return all
}

// scrape sets what is read when it is scraped, so that a tick costs one copy. What is not known has
// no series rather than a false figure.
func (r *Recorder) scrape() {
	r.scrapeOthers()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, signal := range pressure.Signals() {
		r.scrapeSignal(signal)
	}
	for i := range r.thresholds {
		t := &r.thresholds[i]
		if seen := r.sample.Of(t.Signal); seen.State == pressure.Known {
			setAmount(r.metrics.line, t.Signal, t.Quantity.Of(seen.Capacity), t.Kind())
		}
	}
}

func (r *Recorder) scrapeSignal(signal pressure.Signal) {
	m, seen, name := r.metrics, r.sample.Of(signal), signal.String()
	for _, state := range []pressure.State{pressure.Unknown, pressure.Absent, pressure.Known} {
		m.state.WithLabelValues(name, state.String()).Set(number(state == seen.State))
	}
	m.underPressure.WithLabelValues(name).Set(number(r.under[signal]))
	if f := r.forecasts[signal]; f.Known {
		seconds := f.After.Seconds()
		if f.After == pressure.Never {
			seconds = math.Inf(1)
		}
		m.forecast.WithLabelValues(name).Set(seconds)
	}
	if seen.State == pressure.Known {
		setAmount(m.available, signal, seen.Available)
		setAmount(m.capacity, signal, seen.Capacity)
	}
	if seen.State != pressure.Unknown {
		for _, hard := range []bool{false, true} {
			t := threshold{signal, hard}
			_, holds := r.holding[t]
			m.pressure.WithLabelValues(name, t.kind()).Set(number(holds))
		}
	}
}

// scrapeOthers reads what has a function in the settings.
func (r *Recorder) scrapeOthers() {
	if r.settings.WatchAge != nil {
		if age, known := r.settings.WatchAge(); known {
			r.metrics.watchAge.WithLabelValues().Set(age.Seconds())
		}
	}
	if r.settings.MemoryUsed != nil {
		memory, err := r.settings.MemoryUsed()
		for part, bytes := range memory {
			if err == nil {
				r.metrics.memoryUsed.WithLabelValues(string(part)).Set(float64(bytes))
			}
		}
	}
	if r.settings.OOMKills != nil {
		if kills, err := r.settings.OOMKills(); err == nil {
			r.metrics.oomKills.WithLabelValues().Add(float64(kills))
		}
	}
}

// setAmount shows an amount of a signal in its metric's unit.
func setAmount(of map[string]*prometheus.GaugeVec, signal pressure.Signal, amount int64, labels ...string) {
	unit, per := unitOf(signal)
	of[unit].WithLabelValues(append([]string{signal.String()}, labels...)...).Set(float64(amount) / per)
}

func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
