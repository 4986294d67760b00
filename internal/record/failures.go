package record

import (
	"slices"
	"strconv"

	"go.uber.org/zap"

	"github.com/evictd/evictd/internal/taint"
)

// What fails, for [Recorder.Failed], besides a reading and [taint.Failure].
const (
	// FailedWatch is listing or watching the node's pods.
	FailedWatch = "Watch"
	// FailedState is a write of the state file that failed or was slow.
	FailedState = "State"
)

// SourceHost is what the host's memory is used by besides the pods.
const SourceHost = "Host"

// Failed counts a failure of one of the kinds above, and logs it about once a minute while it goes on.
// Failed readings of signals are counted by [Recorder.Sample].
func (r *Recorder) Failed(what string, err error) {
	message, line := "reading failed", fields{zap.Error(err)}
	switch what {
	case FailedWatch:
		message = "watching the node's pods failed"
		r.metrics.watchErrors.WithLabelValues().Inc()
	case taint.Failure:
		message = "tainting the node failed"
		r.metrics.taintErrors.WithLabelValues().Inc()
	case FailedState:
		message = "writing the state file failed or was slow"
		r.metrics.stateFailures.WithLabelValues().Inc()
	default:
		line = append(line, zap.String("source", what))
		r.metrics.readErrors.WithLabelValues(what).Inc()
	}
	r.mu.Lock()
	due := r.said.say(subject{thing: what}, "failed", r.settings.Now(), failuresApart)
	r.mu.Unlock()
	if due {
		r.logger.Warn(message, line...)
	}
}

// The requests to the API server that failures are counted by. A watch counts where it does not begin,
// and Get reads one object.
const (
	RequestEviction = "Eviction"
	RequestList     = "List"
	RequestWatch    = "Watch"
	RequestGet      = "Get"
	RequestEvent    = "Event"
	RequestOther    = "Other"
)

// APIRequests returns the requests that [Recorder.APIError] counts by.
func APIRequests() []string {
	return []string{RequestEviction, RequestList, RequestWatch, RequestGet, RequestEvent, RequestOther}
}

// codes are the values of the label for a status code: what has none of its own is in a class.
func codes() []string { return []string{"None", "401", "403", "429", "4xx", "5xx"} }

// APIError counts a request to the API server that did not succeed, by one of [APIRequests] and the
// status code, 400 or more; 0 where there was no answer.
func (r *Recorder) APIError(request string, status int) {
	code := strconv.Itoa(status)
	switch {
	case status == 0:
		code = "None"
	case status >= 500:
		code = "5xx"
	case !slices.Contains(codes(), code):
		code = "4xx"
	}
	r.metrics.apiErrors.WithLabelValues(request, code).Inc()
}
