package record

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"
)

// The requests to the API server that failures are counted by.
const (
	// RequestEviction evicts a pod.
	RequestEviction = "Eviction"
	// RequestList lists the node's pods.
	RequestList = "List"
	// RequestWatch begins a watch of them; one that breaks later is a watch error.
	RequestWatch = "Watch"
	// RequestGet reads one object.
	RequestGet = "Get"
	// RequestEvent writes an Event.
	RequestEvent = "Event"
	// RequestOther is any other.
	RequestOther = "Other"
)

// The outcomes of a request that did not succeed.
const (
	// ClassNone: there was no answer: no connection, or a time-out.
	ClassNone = "None"
	// ClassUnauthorized is 401: the credentials are not known.
	ClassUnauthorized = "401"
	// ClassForbidden is 403: no right, or admission denies it.
	ClassForbidden = "403"
	// ClassTooMany is 429: too many requests, or, of an eviction, a budget.
	ClassTooMany = "429"
	// ClassClient is any other code from 400 to 499.
	ClassClient = "4xx"
	// ClassServer is any code from 500 on.
	ClassServer = "5xx"
)

// APIRequests returns the requests that [Recorder.APIError] counts by.
func APIRequests() []string {
	return []string{RequestEviction, RequestList, RequestWatch, RequestGet, RequestEvent, RequestOther}
}

// APIClasses returns what failures are counted as.
func APIClasses() []string {
	return []string{ClassNone, ClassUnauthorized, ClassForbidden, ClassTooMany, ClassClient, ClassServer}
}

// newAPIErrors returns the counter with every series.
func newAPIErrors(by registrar) *prometheus.CounterVec {
	c := by.counters("api_errors_total", "Requests to the API server that were not answered with success, by request and by status code; None is no answer. "+
		"Each attempt counts. An eviction's refusal is among them: evictd_evictions_total tells what it meant.", "request", "code")
	for _, request := range APIRequests() {
		for _, class := range APIClasses() {
			c.WithLabelValues(request, class)
		}
	}
	return c
}

// APIError counts a request to the API server that did not succeed, by one of [APIRequests] and one
// of [APIClasses].
func (r *Recorder) APIError(request, class string) {
	if !slices.Contains(APIRequests(), request) {
		request = RequestOther
	}
	if slices.Contains(APIClasses(), class) {
		r.metrics.apiErrors.WithLabelValues(request, class).Inc()
	}
}
