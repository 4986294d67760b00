package apiclient

import (
	"context"
	"errors"
	"net/http"
	"path"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/evictd/evictd/internal/record"
)

// Failed is called for each request to the API server that did not succeed, with one of
// [record.APIRequests] and the status code, 0 where there was no answer. It is called on any goroutine.
type Failed func(request string, status int)

// transport returns one that reports failures. It is below client-go, which retries some
// of them without reporting them. A request whose context has ended is not a failure.
func (f Failed) transport(inner http.RoundTripper) http.RoundTripper {
	return promhttp.RoundTripperFunc(func(r *http.Request) (*http.Response, error) {
		response, err := inner.RoundTrip(r)
		switch {
		case err != nil && !errors.Is(r.Context().Err(), context.Canceled):
			f(kindOf(r), 0)
		case err == nil && response.StatusCode >= http.StatusBadRequest:
			f(kindOf(r), response.StatusCode)
		}
		return response, err
	})
}

// kindOf returns the kind of a request. Namespaces and pods may have the names of resources.
func kindOf(r *http.Request) string {
	name, parent := path.Base(r.URL.Path), path.Base(path.Dir(r.URL.Path))
	read, creates := r.Method == http.MethodGet, r.Method == http.MethodPost
	switch {
	case read && r.URL.Query().Has("watch"):
		return record.RequestWatch
	case read && name == "pods":
		return record.RequestList
	case read:
		return record.RequestGet
	case creates && name == "eviction":
		return record.RequestEviction
	case creates && name == "events", parent == "events":
		return record.RequestEvent
	default:
		return record.RequestOther
	}
}
