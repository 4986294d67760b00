package httpd_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

// dial connects from one of the machine's own addresses, sends a request and reads its answer. The
// connection is idle then. It fails where the server closes it.
func dial(t *testing.T, url, from, path string) (net.Conn, error) {
	t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	connection, err := dialer.DialContext(t.Context(), "tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		return nil, err
	}
	_, err = fmt.Fprintf(connection, "GET %s HTTP/1.1\r\nHost: node\r\n\r\n", path)
	if err == nil {
		var answer *http.Response
		if answer, err = http.ReadResponse(bufio.NewReader(connection), nil); err == nil {
			_, err = io.Copy(io.Discard, answer.Body)
			err = errors.Join(err, answer.Body.Close())
		}
	}
	if err != nil {
		return nil, errors.Join(err, connection.Close())
	}
	t.Cleanup(func() { _ = connection.Close() }) // the server may have closed it
	return connection, nil
}

// A client that opens connections and keeps them gets few, and the probes come through all the same.
func TestFaultIdleConnectionsAreBounded(t *testing.T) {
	t.Parallel()
	url, _, _ := serve(t, well, list)
	open := 0
	for i := range 40 {
		for range 20 {
			if _, err := dial(t, url, fmt.Sprintf("127.0.1.%d", i+1), "/livez"); err == nil {
				open++
			}
		}
	}
	if open != 256 {
		t.Errorf("%d connections are open, want 256", open)
	}
	if _, err := dial(t, url, "127.0.0.1", "/livez"); err != nil {
		t.Errorf("the node itself is refused: %v", err)
	}
	if _, err := dial(t, url, "127.0.2.1", "/livez"); err == nil {
		t.Error("another address is not refused")
	}
}

// A page that is asked many times at once says so.
func TestFaultEachPageHasALimitOfRequests(t *testing.T) {
	t.Parallel()
	const page, most = "/debug/status", 4
	entered, leave := make(chan struct{}), make(chan struct{})
	url, _, _ := serve(t, well, func(r *http.Request) (any, error) {
		entered <- struct{}{}
		<-leave
		return list(r)
	})
	answers := make(chan error, most)
	for range most {
		go func() {
			_, err := dial(t, url, "127.0.0.1", page)
			answers <- err
		}()
		<-entered
	}
	if status, body := ask(t, http.MethodGet, url+page); status != http.StatusServiceUnavailable {
		t.Errorf("%s, one more than %d requests: %d %q", page, most, status, body)
	}
	if status, _ := ask(t, http.MethodGet, url+"/livez"); status != http.StatusOK {
		t.Errorf("/livez = %d meanwhile", status)
	}
	close(leave)
	for range most {
		if err := <-answers; err != nil {
			t.Error(err)
		}
	}
}
