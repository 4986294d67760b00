package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/evictd/evictd/internal/status"
)

// eventsServer is an API server that accepts Events and handles nothing else.
type eventsServer struct {
	mu   sync.Mutex
	told []string // kind and reason of each
}

func (s *eventsServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var event corev1.Event
	if err != nil || r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "/events") || json.Unmarshal(body, &event) != nil {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	s.mu.Lock()
	s.told = append(s.told, event.InvolvedObject.Kind+" "+event.Reason)
	s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	_, _ = w.Write(body)
}

func (s *eventsServer) count(what string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, told := range s.told {
		if told == what {
			n++
		}
	}
	return n
}

// startRig is `evictd run` with a configuration file for the test.
type startRig struct {
	*runFlags

	t      *testing.T
	server *eventsServer
}

func newStartRig(t *testing.T) *startRig {
	t.Helper()
	r := &startRig{t: t, server: &eventsServer{}}
	r.runFlags = flagsFor(t, machine(t), serving(t, r.server))
	r.address, r.debug = freeAddress(t), freeAddress(t)
	return r
}

// rigs counts the rigs.
var rigs atomic.Int32

// freeAddress returns an address with a free port. Its host is of one rig alone: no other test is given
// the port before evictd listens on it.
func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", fmt.Sprintf("127.0.1.%d:0", 1+rigs.Add(1)%250))
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

func (r *startRig) write(text string) {
	r.t.Helper()
	if err := os.WriteFile(r.config, []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

// page returns the content of one of evictd's pages.
func (r *startRig) page(path string) (code int, text string) {
	r.t.Helper()
	address := r.address
	if strings.HasPrefix(path, "/debug/") {
		address = r.debug
	}
	request, err := http.NewRequestWithContext(r.t.Context(), http.MethodGet, "http://"+address+path, http.NoBody)
	if err != nil {
		r.t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		r.t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return response.StatusCode, string(body)
}

const nonsense = head + "nonsense: 1\n"

// With a refused file evictd idles, live and not ready, until the file is valid. A refused edit afterwards fails nothing.
func TestFaultStartWithARefusedFileIdles(t *testing.T) {
	t.Parallel()
	r := newStartRig(t)
	r.write(nonsense)
	e := launch(t, r.runFlags)
	e.await("configuration refused")
	e.await("evictd does not act")
	if code, _ := r.page("/livez"); code != http.StatusOK {
		t.Errorf("/livez: %d", code)
	}
	for _, page := range []string{"/readyz", "/debug/status"} {
		code, text := r.page(page)
		if code != http.StatusServiceUnavailable || !strings.Contains(text, insteadIdle) || !strings.Contains(text, "nonsense") {
			t.Errorf("%s: %d %s", page, code, text)
		}
	}
	if code, text := r.page("/"); code != http.StatusOK || text != "The pages:\n/livez\n/metrics\n/readyz\n" {
		t.Errorf("/: %d %s", code, text)
	}
	if _, text := r.page("/metrics"); !strings.Contains(text, "evictd_config_last_reload_successful 0") || !strings.Contains(text, "evictd_dry_run 1") {
		t.Errorf("/metrics:\n%s", text)
	}
	r.write(memoryOnly)
	e.await("configuration applied")
	code, page := r.page("/debug/status")
	if d, err := status.Read(strings.NewReader(page)); code != http.StatusOK || err != nil || d.NodeName != "node-1" || d.Ranking == nil {
		t.Errorf("/debug/status: %d, %v: %s", code, err, page)
	}
	r.write(nonsense)
	e.await("the one before stays in force")
	if code, text := r.page("/debug/status"); code != http.StatusOK {
		t.Errorf("/debug/status: %d %s", code, text)
	}
	if _, text := r.page("/readyz"); strings.Contains(text, "refused") {
		t.Errorf("/readyz: %s", text)
	}
	e.stop()
	e.ends(exitFine)
	if r.server.count("Node ConfigurationRefused") != 2 {
		t.Errorf("Events %v", r.server.told)
	}
}

// The document names pods: it is where --debug-bind-address says, by default on loopback alone, or nowhere.
func TestDocumentIsServedToTheNodeAlone(t *testing.T) {
	t.Parallel()
	if !strings.HasPrefix(debugAddress, "127.0.0.1:") {
		t.Errorf("by default the document is at %s", debugAddress)
	}
	for _, off := range []bool{false, true} {
		r := newStartRig(t)
		host, port, err := net.SplitHostPort(r.debug)
		if err != nil {
			t.Fatal(err)
		}
		if off {
			r.debug = "0"
		}
		e := launch(t, r.runFlags)
		e.await("started")
		for address, want := range map[string]bool{net.JoinHostPort(host, port): !off, "127.0.2.1:" + port: false} {
			connection, err := net.Dial("tcp", address)
			if (err == nil) != want {
				t.Errorf("off %v: %s: %v; want an answer: %v", off, address, err, want)
			}
			if err == nil {
				_ = connection.Close()
			}
		}
		r.debug = r.address
		if code, _ := r.page("/debug/status"); code != http.StatusNotFound {
			t.Errorf("where everybody reads the document answers %d", code)
		}
		e.stop()
		e.ends(exitFine)
	}
}
