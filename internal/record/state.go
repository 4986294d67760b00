package record

import (
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/evictd/evictd/internal/state"
)

// newStateFailures returns the counter with every series.
func newStateFailures(by registrar) *prometheus.CounterVec {
	c := by.counters("state_write_failures_total", "Writes of the state file that failed, or that took longer than 50 ms, by reason. They stop no eviction; a restart of the container may begin with an older state.", "reason")
	for _, failure := range state.Failures() {
		c.WithLabelValues(string(failure))
	}
	return c
}

// StateFailure counts a write of the state file that failed or was slow; err is nil where it
// was slow.
func (r *Recorder) StateFailure(failure state.Failure, err error) {
	r.metrics.stateFailures.WithLabelValues(string(failure)).Inc()
	r.warnNowAndThen(messageStateWrite+string(failure), messageStateWrite, err, zap.String(keyReason, string(failure)))
}
