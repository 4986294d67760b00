package plugin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	deprecated "k8s.io/apimachinery/pkg/util/httpstream" //nolint:staticcheck // as in dial.go
	"k8s.io/client-go/rest"
)

// Each fault is one sentence.
func TestExplain(t *testing.T) {
	t.Parallel()
	c := &cluster{config: &rest.Config{Host: "https://api"}}
	pods := schema.GroupResource{Resource: "pods"}
	refused := &url.Error{Op: "Get", URL: "https://api/long", Err: &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}}
	for want, err := range map[string]error{
		"asking: the API server forbids it: the account lacks the right to list pods in namespace evictd": fmt.Errorf("so: %w", apierrors.NewForbidden(pods, "", errors.New("no"))),
		"asking: the API server at https://api does not accept the credentials; log in again":             apierrors.NewUnauthorized("no"),
		`asking: pods "x" not found`: apierrors.NewNotFound(pods, "x"),
		"asking: no answer from the API server at https://api: dial tcp: connection refused": refused,
		"asking: no answer in time":                      context.DeadlineExceeded,
		`asking: unable to upgrade connection: one\ntwo`: errors.New("unable to upgrade connection: one\ntwo"),
	} {
		if got := c.explain("asking", err, right{"list", "pods", "evictd"}).Error(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestKubeletsTextIsShortened(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"error forwarding port 9464 to pod 012, uid : dial tcp4 127.0.0.1:9464: connection refused": "dial tcp4 127.0.0.1:9464: connection refused",
		"timed out\n": "timed out",
		"of it, uid ": "of it, uid",
	} {
		if got := unreachedError(text).Error(); got != want {
			t.Errorf("%q is shortened to %q, want %q", text, got, want)
		}
	}
}

// plainUpgrader refuses as client-go does, with the text alone.
type plainUpgrader struct{}

func (plainUpgrader) NewConnection(r *http.Response) (deprecated.Connection, error) {
	text, err := io.ReadAll(r.Body)
	return nil, errors.Join(err, errors.New("plain: "+string(text)))
}

// The API server's status stays one: a request that is forbidden is told from other faults.
func TestRefusedUpgradeKeepsItsStatus(t *testing.T) {
	t.Parallel()
	upgrade := func(text string) error {
		_, err := explainingUpgrader{plainUpgrader{}}.NewConnection(&http.Response{StatusCode: http.StatusForbidden, Body: io.NopCloser(strings.NewReader(text))})
		return err
	}
	if err := upgrade(`{"kind":"Status","status":"Failure","reason":"Forbidden","code":403,"message":"no"}`); !apierrors.IsForbidden(err) {
		t.Errorf("a status is %v", err)
	}
	if err := upgrade("a proxy's page"); err == nil || err.Error() != "plain: a proxy's page" {
		t.Errorf("another text is %v", err)
	}
}

func TestProgressIsForTerminals(t *testing.T) {
	t.Parallel()
	var text bytes.Buffer
	silent, telling := newProgress(&text), &progress{w: &text}
	silent.begin(2)
	silent.step()
	silent.end()
	if text.Len() > 0 {
		t.Errorf("no terminal, and %q", text.String())
	}
	telling.begin(2)
	telling.step()
	telling.end()
	if got, want := text.String(), "\rasked 0 of 2 agents\rasked 1 of 2 agents\r\x1b[K"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
