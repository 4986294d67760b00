package record

import (
	"time"

	"go.uber.org/zap"

	"github.com/evictd/evictd/pkg/pressure"
)

// AgainAfter is how long what goes on unchanged is not recorded again, a hold or a failure. Near a threshold
// there are a hundred ticks a second; one line for each would bury the one that matters.
const AgainAfter = 30 * time.Second

// subject is what something is said of: a thing, of one signal where each signal has its own.
type subject struct {
	thing  string
	signal pressure.Signal
}

// once decides what is news: of each subject it remembers what was said last, and when. It is not safe for
// concurrent use.
type once map[subject]said

type said struct {
	what string
	at   time.Time
}

// say reports whether this is to be said of a subject now.
func (o once) say(of subject, what string, now time.Time) bool {
	last, is := o[of]
	if is && last.what == what && now.Sub(last.at) < AgainAfter {
		return false
	}
	o[of] = said{what, now}
	return true
}

// What fails, for [Recorder.Failed], besides what package measure reads and [taint.Failure].
const (
	// FailedWatch is listing or watching the node's pods.
	FailedWatch = "Watch"
	// FailedState is a write of the state file that failed or was slow.
	FailedState = "State"
	// FailedRecord is a write of the record that failed.
	FailedRecord = "Record"
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
