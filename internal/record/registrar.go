package record

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

const namespace = "evictd"

// registrar makes metrics and registers them at once: none can be forgotten. It panics
// when a name is taken, as MustRegister does.
type registrar struct{ factory promauto.Factory }

func (r registrar) counter(name, help string) prometheus.Counter {
	return r.factory.NewCounter(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help})
}

func (r registrar) counters(name, help string, labels ...string) *prometheus.CounterVec {
	return r.factory.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, labels)
}

func (r registrar) gauge(name, help string) prometheus.Gauge {
	return r.factory.NewGauge(prometheus.GaugeOpts{Namespace: namespace, Name: name, Help: help})
}

func (r registrar) gauges(name, help string, labels ...string) *prometheus.GaugeVec {
	return r.factory.NewGaugeVec(prometheus.GaugeOpts{Namespace: namespace, Name: name, Help: help}, labels)
}

func (r registrar) histogram(name, help string, buckets []float64) prometheus.Histogram {
	return r.factory.NewHistogram(prometheus.HistogramOpts{Namespace: namespace, Name: name, Help: help, Buckets: buckets})
}

func (r registrar) histograms(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return r.factory.NewHistogramVec(prometheus.HistogramOpts{Namespace: namespace, Name: name, Help: help, Buckets: buckets}, labels)
}
