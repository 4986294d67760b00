package plugin

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	deprecated "k8s.io/apimachinery/pkg/util/httpstream" //nolint:staticcheck // client-go's spdy.Upgrader returns its type
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/streaming/pkg/httpstream"
)

// longestAnswer bounds what is read of a refused request, in bytes.
const longestAnswer = 64 << 10

// fallsBack reports whether a WebSocket that could not be opened is followed by SPDY, as by kubectl:
// an older API server or a proxy may not know WebSockets.
func fallsBack(err error) bool {
	return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
}

// byPost is the transport of a request that is upgraded to SPDY. It serves one connection.
type byPost struct {
	transport http.RoundTripper
	upgrader  spdy.Upgrader
}

func newByPost(config *rest.Config) (byPost, error) {
	transport, upgrader, err := spdy.RoundTripperFor(config)
	if err != nil {
		return byPost{}, fmt.Errorf("preparing the connection: %w", err)
	}
	return byPost{transport, explainingUpgrader{upgrader}}, nil
}

// explainingUpgrader keeps what kind of fault the API server answers; client-go keeps only the text.
type explainingUpgrader struct{ spdy.Upgrader }

// NewConnection returns the connection, or the API server's status as an error.
func (u explainingUpgrader) NewConnection(resp *http.Response) (deprecated.Connection, error) {
	if resp.StatusCode == http.StatusSwitchingProtocols {
		return u.Upgrader.NewConnection(resp)
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, longestAnswer))
	if err != nil {
		return nil, fmt.Errorf("reading the API server's answer %s: %w", resp.Status, err)
	}
	var status metav1.Status
	if json.Unmarshal(text, &status) == nil && status.Status == metav1.StatusFailure {
		return nil, &apierrors.StatusError{ErrStatus: status}
	}
	resp.Body = io.NopCloser(bytes.NewReader(text)) // the caller closes the body that it had
	return u.Upgrader.NewConnection(resp)
}
