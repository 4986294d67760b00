package record

import (
	"math"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/evictd/evictd/pkg/pressure"
)

// kinds are the two kinds of threshold, as indices and as label values.
const (
	soft = iota
	hard
	kindCount
)

func kindOf(isHard bool) int {
	if isHard {
		return hard
	}
	return soft
}

func kindName(kind int) string { return pressure.Threshold{Hard: kind == hard}.Kind() }

// signals is the collector of what the node's signals say. It holds the last
// sample and builds series from it when it is scraped, so that a tick costs one
// copy, and an unknown signal has no figure rather than a false one.
type signals struct {
	mu         sync.Mutex
	sample     pressure.Sample // its zero value is unknown everywhere
	holds      [pressure.SignalCount][kindCount]bool
	under      [pressure.SignalCount]bool
	forecasts  [pressure.SignalCount]pressure.Forecast
	thresholds []pressure.Threshold
	age        func() (time.Duration, bool)

	available, capacity, line                      descriptions
	state, pressure, underDesc, forecast, watchAge *prometheus.Desc
}

func newSignals() *signals {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(prometheus.BuildFQName(namespace, "", name), help, labels, nil)
	}
	return &signals{
		available: describe("signal_available", "What is left of the signal; missing while it is not known.", "signal"),
		capacity:  describe("signal_capacity", "What there is of the signal in all; missing while it is not known.", "signal"),
		state:     desc("signal_state", "1 for the state of the signal: Known, Unknown (it could not be read) or Absent (the node has no such signal).", "signal", "state"),
		line:      describe("threshold_line", "The amount below which the threshold is met; missing while it is not known.", "signal", "kind"),
		pressure:  desc("pressure", "1 while a threshold of the signal holds, else 0; missing while the signal is not known.", "signal", "kind"),
		underDesc: desc("under_pressure", "1 while the signal counts as under pressure: a threshold of it is met, grace period or not, or was within the transition period; else 0.", "signal"),
		forecast:  desc("forecast_seconds", "When the signal meets its hard threshold if it goes on as it did over the last seconds; 0 when it is met, +Inf when it is not being used up; missing while that is not known.", "signal"),
		watchAge:  desc("watch_age_seconds", "How long ago the API server last delivered anything on the watch of the node's pods, in seconds."),
	}
}

// Describe sends the descriptions.
func (s *signals) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{s.state, s.pressure, s.underDesc, s.forecast, s.watchAge} {
		ch <- d
	}
	for _, all := range []descriptions{s.available, s.capacity, s.line} {
		for _, d := range all {
			ch <- d
		}
	}
}

// Collect sends the series of the last sample.
func (s *signals) Collect(ch chan<- prometheus.Metric) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, signal := range pressure.Signals() {
		s.collectSignal(ch, signal)
	}
	for i := range s.thresholds {
		t := &s.thresholds[i]
		if seen := s.sample.Of(t.Signal); seen.State == pressure.Known {
			s.line.gauge(ch, t.Signal, t.Quantity.Of(seen.Capacity), t.Kind())
		}
	}
	if s.age == nil {
		return
	}
	if age, known := s.age(); known {
		gauge(ch, s.watchAge, age.Seconds())
	}
}

func (s *signals) collectSignal(ch chan<- prometheus.Metric, signal pressure.Signal) {
	seen, name := s.sample.Of(signal), signal.String()
	for _, state := range []pressure.State{pressure.Unknown, pressure.Absent, pressure.Known} {
		gauge(ch, s.state, number(state == seen.State), name, state.String())
	}
	gauge(ch, s.underDesc, number(s.under[signal]), name)
	if seen.State == pressure.Known {
		s.available.gauge(ch, signal, seen.Available)
		s.capacity.gauge(ch, signal, seen.Capacity)
	}
	if f := s.forecasts[signal]; f.Known {
		gauge(ch, s.forecast, secondsUntil(f.After), name)
	}
	if seen.State == pressure.Unknown {
		return
	}
	for kind := range kindCount {
		gauge(ch, s.pressure, number(s.holds[signal][kind]), name, kindName(kind))
	}
}

// set takes the last sample. It allocates nothing.
func (s *signals) set(sample *pressure.Sample, verdict *pressure.Verdict, holds *[pressure.SignalCount][kindCount]bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sample, s.under, s.holds, s.forecasts = *sample, verdict.Under, *holds, verdict.Forecasts
}

func (s *signals) setThresholds(thresholds []pressure.Threshold) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.thresholds = append(s.thresholds[:0], thresholds...)
}

func (s *signals) setAge(age func() (time.Duration, bool)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.age = age
}

func gauge(ch chan<- prometheus.Metric, desc *prometheus.Desc, value float64, labels ...string) {
	ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
}

func secondsUntil(after time.Duration) float64 {
	if after == pressure.Never {
		return math.Inf(1)
	}
	return after.Seconds()
}

func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
