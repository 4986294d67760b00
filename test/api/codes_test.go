package api

import (
	"net/http"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/rest/fake"

	"github.com/evictd/evictd/pkg/evict"
	"github.com/evictd/evictd/test/internal/evictdtest"
)

// answered returns these credentials with a function that sees each response of the API server. Where it returns an
// error, the response is lost.
func answered(as *rest.Config, see func(*http.Response) error) *rest.Config {
	as = rest.CopyConfig(as)
	as.Wrap(func(inner http.RoundTripper) http.RoundTripper {
		return fake.CreateHTTPClient(func(r *http.Request) (*http.Response, error) {
			response, err := inner.RoundTrip(r)
			if err != nil {
				return nil, err
			}
			if err = see(response); err != nil {
				_ = response.Body.Close()
				return nil, err
			}
			return response, nil
		}).Transport
	})
	return as
}

// outcome sends a request with those credentials. It fails the test unless the API server answers once, with that
// code, and the result has the outcome and every fragment in its message.
func outcome(
	t *testing.T, as *rest.Config, request evict.Request, want evict.Outcome, code int, fragments ...string,
) evict.Result {
	t.Helper()
	var codes []int
	got := evictdtest.Evictor(t, answered(as, func(r *http.Response) error {
		codes = append(codes, r.StatusCode)
		return nil
	})).Evict(t.Context(), request)
	expect(t, got, want, fragments...)
	if len(codes) != 1 || codes[0] != code {
		t.Errorf("status codes %v, want one request and %d", codes, code)
	}
	return got
}
