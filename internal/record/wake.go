package record

import (
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/evictd/evictd/pkg/pressure"
)

// wakes are the metrics of the kernel's wake-ups.
type wakes struct {
	on     *prometheus.GaugeVec
	stalls *prometheus.CounterVec
}

// newWakes returns the metrics with every series, none of them on.
func newWakes(by registrar) wakes {
	w := wakes{
		on: by.gauges("wakeups", "1 while the kernel wakes the loop when tasks wait for memory, by what it watches; 0 while there is pacing alone.", "source"),
		// Not wakeups_total: OpenMetrics names a counter's family without _total.
		stalls: by.counters("stall_events_total", "Times the kernel woke the loop because tasks waited for memory, by what it watches.", "source"),
	}
	for _, source := range pressure.WakeSources() {
		w.on.WithLabelValues(string(source))
		w.stalls.WithLabelValues(string(source))
	}
	return w
}

// Wakeups records, at the start and at each change, whether the kernel wakes the loop because of a
// source, and if not, why. Neither is a warning: without it, pacing alone continues.
func (r *Recorder) Wakeups(state pressure.WakeState) {
	r.metrics.wakes.on.WithLabelValues(string(state.Source)).Set(number(state.Err == nil))
	source := zap.String(keySource, string(state.Source))
	if state.Err != nil {
		r.logger.Info(messageNoWakeups, source, zap.Error(state.Err))
		return
	}
	r.logger.Info(messageWakeups, source, zap.Float64(keyWindow, state.Window.Seconds()), zap.Error(state.PassedOver))
}

// Woken counts one event of the kernel. It logs nothing: there may be one a second.
func (r *Recorder) Woken(source pressure.WakeSource) {
	r.metrics.wakes.stalls.WithLabelValues(string(source)).Inc()
}
