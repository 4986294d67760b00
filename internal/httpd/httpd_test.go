package httpd_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/evictd/evictd/internal/httpd"
	"github.com/evictd/evictd/internal/testing/must"
)

// well is a probe without a fault.
func well() error { return nil }

// serve runs a server of two probes, of which one is always well, and of a page until the test ends.
func serve(t *testing.T, live httpd.Probe, page httpd.Page) (url string, cancel context.CancelFunc, done <-chan error) {
	t.Helper()
	server, err := httpd.Listen(t.Context(), "127.0.0.1:0", map[string]http.Handler{
		"GET /livez": live, "GET /readyz": httpd.Probe(well), "GET /debug/status": page,
	})
	must.Succeed(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx) }()
	t.Cleanup(cancel)
	return "http://" + server.Addr(), cancel, ended
}

func ask(t *testing.T, method, url string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	must.Succeed(t, err)
	response, err := http.DefaultClient.Do(request)
	must.Succeed(t, err)
	body, err := io.ReadAll(response.Body)
	must.Succeed(t, err, response.Body.Close())
	return response.StatusCode, string(body)
}

func list(*http.Request) (any, error) { return []string{}, nil }

func TestPages(t *testing.T) {
	t.Parallel()
	fine, _, _ := serve(t, well, list)
	ill, _, _ := serve(t, func() error { return errors.New("no tick\nfor 31s") }, list)
	hung, _, _ := serve(t, well, func(*http.Request) (any, error) { return nil, errors.New("the loop hangs") })
	for _, test := range []struct {
		base, method, path string
		status             int
		body               string
	}{
		{fine, "GET", "/livez", 200, "ok\n"},
		{fine, "GET", "/readyz", 200, "ok\n"},
		{fine, "GET", "/debug/status", 200, "[]\n"},
		{hung, "GET", "/debug/status", 503, "the loop hangs\n"},
		{fine, "GET", "/debug/status?signal=pid.available", 200, "[]\n"},
		{fine, "HEAD", "/livez", 200, ""},
		{ill, "GET", "/livez", 503, "no tick for 31s\n"},
		{ill, "GET", "/debug/status", 200, "[]\n"},
		{fine, "GET", "/", 200, "The pages:\n/debug/status\n/livez\n/readyz\n"},
		{fine, "GET", "/none", 404, ""},
		{fine, "GET", "/debug/pprof/", 404, ""},
		{fine, "GET", "/debug/status/1", 404, ""},
		{fine, "POST", "/livez", 405, ""},
	} {
		status, body := ask(t, test.method, test.base+test.path)
		if status != test.status || !strings.HasSuffix(body, test.body) {
			t.Errorf("%s %s = %d %q, want %d ending in %q", test.method, test.path, status, body, test.status, test.body)
		}
	}
}

func TestRunFinishesWhatIsUnderWay(t *testing.T) {
	t.Parallel()
	entered, leave := make(chan struct{}), make(chan struct{})
	url, cancel, done := serve(t, well, func(r *http.Request) (any, error) {
		close(entered)
		<-leave
		return list(r)
	})
	answered := make(chan string, 1)
	go func() {
		_, body := ask(t, http.MethodGet, url+"/debug/status")
		answered <- body
	}()
	<-entered
	canceled := time.Now()
	cancel()
	for refused := false; !refused; { // the port is closed first, then the answer is awaited
		_, err := dial(t, url, "127.0.0.1", "/livez")
		refused = errors.Is(err, syscall.ECONNREFUSED)
	}
	select {
	case err := <-done:
		t.Fatalf("Run returned %v while an answer was under way", err)
	default:
	}
	close(leave)
	body, waited := <-answered, time.Since(canceled)
	if waited > 3*time.Second {
		t.Skipf("SKIP: this machine took %v, and the server waits no longer than 3 s for what is under way", waited)
	}
	if body != "[]\n" {
		t.Errorf("the answer under way was %q", body)
	}
	if err := <-done; err != nil {
		t.Errorf("Run = %v, want nil", err)
	}
}

// TestProbeThatHangsDoesNotSayOK: a check that hangs does not report ok, and delays no other page.
func TestProbeThatHangsDoesNotSayOK(t *testing.T) {
	t.Parallel()
	entered, leave := make(chan struct{}), make(chan struct{})
	url, cancel, done := serve(t, func() error {
		close(entered)
		<-leave
		return errors.New("the first tick hangs")
	}, list)
	type answer struct {
		status int
		body   string
	}
	live := make(chan answer, 1)
	go func() {
		status, body := ask(t, http.MethodGet, url+"/livez")
		live <- answer{status, body}
	}()
	<-entered
	for _, path := range []string{"/readyz", "/debug/status"} {
		if status, _ := ask(t, http.MethodGet, url+path); status != http.StatusOK {
			t.Errorf("%s = %d while /livez hangs", path, status)
		}
	}
	select {
	case got := <-live:
		t.Errorf("/livez = %+v before its check has answered", got)
	default:
	}
	close(leave)
	if got, want := <-live, (answer{http.StatusServiceUnavailable, "the first tick hangs\n"}); got != want {
		t.Errorf("/livez = %+v, want %+v", got, want)
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("Run = %v, want nil", err)
	}
}

// TestRunEndsWellWithASilentClient: a client that has connected and sends no request is
// disconnected at the end: evictd must not end with an error because of a client's connection.
func TestRunEndsWellWithASilentClient(t *testing.T) {
	t.Parallel()
	url, cancel, done := serve(t, well, list)
	connection, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	must.Succeed(t, err)
	defer connection.Close()
	ask(t, http.MethodGet, url+"/livez") // so the connection before has been accepted
	cancel()
	if err := <-done; err != nil {
		t.Errorf("Run = %v, want nil", err)
	}
	if _, err := connection.Read(make([]byte, 1)); !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("reading from the server that has ended: %v, want the end", err)
	}
}
