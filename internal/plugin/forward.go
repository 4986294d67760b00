package plugin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/streaming/pkg/httpstream"

	"github.com/evictd/evictd/internal/wording"
)

// forward returns a connection to the agent's HTTP server. It opens no port on this machine.
func (c *cluster) forward(ctx context.Context, a *agent) (net.Conn, error) {
	dialer, err := c.forwarder(c.core.Post().Namespace(a.namespace).Resource("pods").Name(a.pod).SubResource("portforward").URL())
	if err != nil {
		return nil, err
	}
	connection, err := dial(ctx, dialer)
	if err != nil {
		return nil, err
	}
	stream, err := newForwarded(connection, a.port)
	if err != nil {
		return nil, errors.Join(err, connection.Close())
	}
	return stream, nil
}

// forwarder tries a WebSocket first.
func (c *cluster) forwarder(to *url.URL) (httpstream.Dialer, error) {
	posted, err := newByPost(c.config)
	if err != nil {
		return nil, err
	}
	socket, err := portforward.NewSPDYOverWebsocketDialerForStreaming(to, c.config)
	if err != nil {
		return nil, fmt.Errorf("preparing the connection: %w", err)
	}
	streamed := spdy.NewDialerForStreaming(posted.upgrader, &http.Client{Transport: posted.transport}, http.MethodPost, to)
	return portforward.NewFallbackDialerForStreaming(socket, streamed, fallsBack), nil
}

// dial opens a connection until the context ends, which client-go's dialers do not know.
func dial(ctx context.Context, dialer httpstream.Dialer) (httpstream.Connection, error) {
	type result struct {
		connection httpstream.Connection
		err        error
	}
	dialed := make(chan result)
	go func() {
		connection, _, err := dialer.Dial(portforward.PortForwardProtocolV1Name)
		select {
		case dialed <- result{connection, err}:
		case <-ctx.Done():
			if err == nil {
				_ = connection.Close() // too late for the caller
			}
		}
	}()
	select {
	case r := <-dialed:
		return r.connection, r.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// forwarded is one forwarded connection. The kubelet reports a port that it cannot reach on a stream
// of its own; the connection then fails with that text.
type forwarded struct {
	connection httpstream.Connection
	data       httpstream.Stream
	// ended is closed once the stream of errors has ended; fault is its text, "" for none.
	ended chan struct{}
	fault string
}

func newForwarded(connection httpstream.Connection, port int32) (*forwarded, error) {
	headers := http.Header{}
	headers.Set(corev1.PortHeader, strconv.Itoa(int(port)))
	headers.Set(corev1.PortForwardRequestIDHeader, "0")
	headers.Set(corev1.StreamType, corev1.StreamTypeError)
	faults, err := connection.CreateStream(headers)
	if err != nil {
		return nil, fmt.Errorf("opening the stream of errors: %w", err)
	}
	_ = faults.Close() // nothing is written to it
	headers.Set(corev1.StreamType, corev1.StreamTypeData)
	data, err := connection.CreateStream(headers)
	if err != nil {
		return nil, fmt.Errorf("opening the stream of data: %w", err)
	}
	f := &forwarded{connection: connection, data: data, ended: make(chan struct{})}
	go func() {
		defer close(f.ended)
		text, _ := io.ReadAll(io.LimitReader(faults, longestAnswer)) // a broken stream says nothing more
		f.fault = string(text)
	}()
	return f, nil
}

// Read reads what the agent sends. The end of a connection that failed is the kubelet's error.
func (f *forwarded) Read(into []byte) (int, error) {
	n, err := f.data.Read(into)
	if err == nil || n > 0 {
		return n, nil
	}
	<-f.ended // both streams end with the connection
	if f.fault != "" {
		return 0, unreachedError(f.fault)
	}
	return 0, err
}

// unreachedError is the kubelet's text about a port that it cannot forward to.
type unreachedError string

// Error returns the text without its beginning, which repeats port and pod: "error forwarding port
// 9464 to pod 0123, uid : connection refused".
func (e unreachedError) Error() string {
	text := wording.OneLine(strings.TrimSpace(string(e)))
	if _, cause, found := strings.Cut(text, ", uid "); found {
		if _, cause, found = strings.Cut(cause, ": "); found {
			return cause
		}
	}
	return text
}

// Write sends to the agent.
func (f *forwarded) Write(text []byte) (int, error) { return f.data.Write(text) }

// Close ends the forwarding.
func (f *forwarded) Close() error { return f.connection.Close() }

// LocalAddr returns no address: there is none.
func (f *forwarded) LocalAddr() net.Addr { return &net.TCPAddr{} }

// RemoteAddr returns no address: there is none.
func (f *forwarded) RemoteAddr() net.Addr { return &net.TCPAddr{} }

// SetDeadline does nothing: the request's context bounds the connection.
func (f *forwarded) SetDeadline(time.Time) error { return nil }

// SetReadDeadline does nothing, as SetDeadline.
func (f *forwarded) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline does nothing, as SetDeadline.
func (f *forwarded) SetWriteDeadline(time.Time) error { return nil }
