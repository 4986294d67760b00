package record

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/evictd/evictd/internal/taint"
)

// optIns are the metrics of the node's taint, which is off by default.
type optIns struct {
	taints      *prometheus.GaugeVec
	taintErrors prometheus.Counter
}

func newOptIns(by registrar) optIns {
	o := optIns{
		taints:      by.gauges("node_taints", "1 while the node carries the taint of evictd's own, as far as evictd knows.", "taint"),
		taintErrors: by.counter("taint_errors_total", "Failures to set or remove the node's taint; they are tried again."),
	}
	for _, key := range taint.All.Keys() {
		o.taints.WithLabelValues(key)
	}
	return o
}

// Tainted notes a change of the node's taints, by their keys. A dry run has changed
// nothing.
func (r *Recorder) Tainted(added, removed []string, dryRun bool) {
	for _, one := range []struct {
		message string
		keys    []string
		on      bool
	}{{messageTainted, added, true}, {messageUntainted, removed, false}} {
		if len(one.keys) == 0 {
			continue
		}
		r.logger.Info(one.message, zap.Strings(keyTaints, one.keys), zap.Bool(keyDryRun, dryRun))
		for _, key := range one.keys {
			if !dryRun && slices.Contains(taint.All.Keys(), key) {
				r.metrics.optIns.taints.WithLabelValues(key).Set(number(one.on))
			}
		}
	}
}

// TaintError counts a failure to change the node's taints and logs it about once a minute.
func (r *Recorder) TaintError(err error) {
	r.metrics.optIns.taintErrors.Inc()
	r.warnNowAndThen(messageTaint, messageTaint, err)
}
