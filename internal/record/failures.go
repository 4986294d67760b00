package record

import (
	"slices"
	"strconv"

	"go.uber.org/zap"
)

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
