package evict_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/evictd/evictd/pkg/evict"
)

// The response of a starting API server 1.36 concerns no pod, and the state ends within
// seconds.
func TestFaultStartingServerIsThrottled(t *testing.T) {
	t.Parallel()
	says := func(text string) answer {
		return failed(403, `"message":"`+text+`","reason":"Forbidden","details":{"name":"web-1","kind":"pods"}`)
	}
	outcomes{
		"not ready": {says(`pods \"web-1\" is forbidden: not yet ready to handle request`), answer{}, is(evict.Throttled)},
		"a policy that is not synced": {says(`pods \"web-1\" is forbidden: ValidatingAdmissionPolicy 'evictd-evicts-on-own-node' with binding 'evictd-evicts-on-own-node' ` +
			"denied request: failed to configure binding: paramKind kind `/v1, Kind=Pod` not yet synced to use for admission"), answer{}, is(evict.Throttled)},
		"a webhook that quotes this text": {says(`admission webhook \"x.example.com\" denied the request: not yet ready to handle request`), answer{}, is(evict.Denied)},
	}.check(t, evict.Request{})
}

// 64 decisions keep the text of 110 denials by a policy engine.
func TestFaultMessagesAreCutWhereTheyEnter(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("é", 10<<10)
	s := newServer(t, failed(403, `"message":"admission webhook \"x\" denied the request: `+long+`"`), answer{})
	got := s.evict(t)
	if len(got.Message) > 1<<10 || len(got.Message) < 1000 || !utf8.ValidString(got.Message) || !strings.HasSuffix(got.Message, "…") {
		t.Errorf("%d bytes, valid %v: %.80q", len(got.Message), utf8.ValidString(got.Message), got.Message)
	}
	if got.Outcome != evict.Denied {
		t.Errorf("outcome %s, want Denied", got.Outcome)
	}
	// An error of the transport, which quotes its input, is cut too.
	got = evictorAt(t, "http://127.0.0.1:1/"+strings.Repeat("a", 10<<10)).Evict(t.Context(), evict.Request{Namespace: "shop", Name: "web-1", UID: "uid-1"})
	if len(got.Message) > 1<<10 {
		t.Errorf("%d bytes of an error", len(got.Message))
	}
}

// A request that its caller has withdrawn is in doubt, and says why.
func TestWithdrawnRequestIsInDoubt(t *testing.T) {
	t.Parallel()
	asked, over := make(chan struct{}), make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			answer{code: 200, body: podOfUID}.write(w)
			return
		}
		close(asked)
		<-over
	}))
	t.Cleanup(s.Close)
	t.Cleanup(func() { close(over) })
	ctx, withdraw := context.WithCancelCause(t.Context())
	go func() {
		<-asked
		withdraw(errors.New("for a reason"))
	}()
	got := evictorAt(t, s.URL).Evict(ctx, evict.Request{Namespace: "shop", Name: "web-1", UID: "uid-1"})
	if got.Outcome != evict.Unconfirmed || !got.Withdrawn || !got.Pending || !got.Stays || got.Message != "for a reason" {
		t.Errorf("%+v, want one in doubt whose pod stays, for a reason", got)
	}
}
