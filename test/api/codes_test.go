package api

import (
	"net/http"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
)

// codes records the status codes of the responses, so that a test can log the code of the
// real API server.
type codes struct {
	inner http.RoundTripper
	seen  []int
}

func (c *codes) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := c.inner.RoundTrip(r)
	if err == nil {
		c.seen = append(c.seen, response.StatusCode)
	}
	return response, err
}

// listening returns credentials that record the status codes.
func listening(config *rest.Config) (*rest.Config, *codes) {
	c := &codes{}
	config.Wrap(transport.WrapperFunc(func(rt http.RoundTripper) http.RoundTripper {
		c.inner = rt
		return c
	}))
	return config, c
}

func expectCode(t *testing.T, c *codes, want int) {
	t.Helper()
	if len(c.seen) != 1 || c.seen[0] != want {
		t.Errorf("status codes %v, want one request and %d", c.seen, want)
	}
}
