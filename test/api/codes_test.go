package api

import (
	"net/http"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"

	"github.com/evictd/evictd/pkg/evict"
	"github.com/evictd/evictd/test/internal/evictdtest"
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

// outcome sends a request with those credentials. It fails the test unless the API server answers once, with that
// code, and the result has the outcome and every fragment in its message.
func outcome(
	t *testing.T, as *rest.Config, request evict.Request, want evict.Outcome, code int, fragments ...string,
) evict.Result {
	t.Helper()
	c := &codes{}
	as.Wrap(transport.WrapperFunc(func(rt http.RoundTripper) http.RoundTripper {
		c.inner = rt
		return c
	}))
	got := evictdtest.Evictor(t, as).Evict(t.Context(), request)
	expect(t, got, want, fragments...)
	if len(c.seen) != 1 || c.seen[0] != code {
		t.Errorf("status codes %v, want one request and %d", c.seen, code)
	}
	return got
}
