package record

import "go.uber.org/zap"

// What fails, for [Recorder.Failed], besides what package measure reads and [taint.Failure].
const (
	// FailedWatch is listing or watching the node's pods.
	FailedWatch = "Watch"
	// FailedState is a write of the state file that failed or was slow.
	FailedState = "State"
	// FailedHost is reading what the host's memory is used by besides the pods.
	FailedHost = "Host"
)

// Failed counts a reading or writing that failed, by its source, and logs it again after [AgainAfter] while it
// goes on. Failed readings of signals are counted by [Recorder.Sample].
func (r *Recorder) Failed(source string, err error) {
	r.metrics.failures.WithLabelValues(source).Inc()
	r.mu.Lock()
	due := r.said.say(subject{thing: source}, "", r.settings.Now())
	r.mu.Unlock()
	if due {
		r.logger.Warn("reading or writing failed", zap.String("source", source), zap.Error(err))
	}
}
