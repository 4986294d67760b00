package record

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/evictd/evictd/pkg/pressure"
)

// microseconds are in one second, Prometheus' base unit.
const microseconds = 1e6

// unitOf returns the base unit that ends the names of a signal's metrics, and how many of the
// signal's own unit make one.
func unitOf(signal pressure.Signal) (name string, per float64) {
	if signal.Unit() == pressure.Microseconds {
		return "seconds", microseconds
	}
	return string(signal.Unit()), 1
}

// vectors are metrics by their unit: one metric never mixes two.
type vectors[V prometheus.Collector] map[string]V

// newVectors makes a metric for each unit of the signals that are chosen.
func newVectors[V prometheus.Collector](chosen func(pressure.Signal) bool, one func(unit string) V) vectors[V] {
	all := vectors[V]{}
	for _, signal := range pressure.Signals() {
		unit, _ := unitOf(signal)
		if _, made := all[unit]; !made && chosen(signal) {
			all[unit] = one(unit)
		}
	}
	return all
}

// of returns the metric of the signal's unit.
func (v vectors[V]) of(signal pressure.Signal) V {
	unit, _ := unitOf(signal)
	return v[unit]
}

// descriptions are a metric of every signal, by the unit that ends its name.
type descriptions map[string]*prometheus.Desc

// describe returns the descriptions of a metric in every unit.
func describe(name, help string, labels ...string) descriptions {
	all := descriptions{}
	for _, signal := range pressure.Signals() {
		unit, _ := unitOf(signal)
		all[unit] = prometheus.NewDesc(prometheus.BuildFQName(namespace, "", name+"_"+unit), help, labels, nil)
	}
	return all
}

// gauge sends an amount of a signal in its metric's unit.
func (d descriptions) gauge(ch chan<- prometheus.Metric, signal pressure.Signal, amount int64, labels ...string) {
	unit, per := unitOf(signal)
	gauge(ch, d[unit], float64(amount)/per, append([]string{signal.String()}, labels...)...)
}
