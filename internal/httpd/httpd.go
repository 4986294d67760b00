// Package httpd serves a node agent's pages over HTTP: metrics, probes and documents. It serves no profiles and no
// way to change anything, and no client takes its memory or keeps the kubelet's probes out.
package httpd

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	readTimeout  = 5 * time.Second  // of a request; none has a body
	writeTimeout = 30 * time.Second // of an answer, the scrape included
	idleTimeout  = 10 * time.Second
	// shutdownTimeout is how long answers that are under way may still take.
	shutdownTimeout = 3 * time.Second
	maxHeaderBytes  = 16 << 10
	// maxRequests is how many requests of one page may be answered at once; more get 503. A page may take a MiB.
	maxRequests = 4
)

// Page makes what a page shows as JSON. An error is why there is nothing, and the page is 503 with it.
type Page func(*http.Request) (any, error)

// Probe returns why its page is 503, or nil.
type Probe func() error

// Server serves evictd's pages.
type Server struct {
	server   *http.Server
	listener net.Listener
}

// Listen returns a server of these pages, by their patterns as of [http.ServeMux], and of a list of them at "/". It has
// opened its port, so that one that is taken is known before anything else has begun. Each page answers few requests at
// once, but for a [Probe], which has its answer at once.
func Listen(ctx context.Context, address string, pages map[string]http.Handler) (*Server, error) {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listening on %s: %w", address, err)
	}
	mux := http.NewServeMux()
	for pattern, page := range pages {
		if _, many := page.(Probe); !many {
			page = limited(page)
		}
		mux.Handle(pattern, page)
	}
	list := strings.ReplaceAll(strings.Join(slices.Sorted(maps.Keys(pages)), "\n"), "GET ", "")
	mux.Handle("GET /{$}", limited(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintf(w, "The pages:\n%s\n", list) // the reader has disconnected
	})))
	open := connections{by: map[string]int{}}
	return &Server{&http.Server{
		Handler: mux, MaxHeaderBytes: maxHeaderBytes, ConnState: open.changed,
		ReadHeaderTimeout: readTimeout, ReadTimeout: readTimeout, WriteTimeout: writeTimeout, IdleTimeout: idleTimeout,
	}, listener}, nil
}

// limited answers 503 while so many requests are being answered.
func limited(page http.Handler) http.Handler {
	places := make(chan struct{}, maxRequests)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case places <- struct{}{}:
			defer func() { <-places }()
			page.ServeHTTP(w, r)
		default:
			http.Error(w, "too many requests at once", http.StatusServiceUnavailable)
		}
	})
}

// ServeHTTP answers 200, or 503 with the reason on one line.
func (p Probe) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	if err := p(); err != nil {
		http.Error(w, strings.Join(strings.Fields(err.Error()), " "), http.StatusServiceUnavailable)
		return
	}
	_, _ = fmt.Fprintln(w, "ok") // the prober has disconnected
}

// ServeHTTP answers with what the page shows.
func (p Page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	shown, err := p(r)
	if err == nil {
		err = encoder.Encode(shown)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(text.Bytes()) // the reader has disconnected
}

// The pages are open to every pod of the cluster, and a connection holds 17 KiB: 3,000 idle ones would
// be the container's memory. Those from the node itself are not counted among all: the kubelet's probes
// must come through. One address has few: a Prometheus needs one, a user's browser six.
const (
	maxConnections = 256
	maxOfAddress   = 16
)

// connections are the open connections of a server.
type connections struct {
	mu  sync.Mutex
	all int            // but for those from the node itself
	by  map[string]int // by the remote address
}

// changed is the server's hook for connections: it closes a new one that is too many, on which no
// request has come. The server then reports it as closed.
func (c *connections) changed(connection net.Conn, state http.ConnState) {
	n := map[http.ConnState]int{http.StateNew: 1, http.StateClosed: -1}[state]
	if n == 0 {
		return
	}
	remote, _, _ := net.SplitHostPort(connection.RemoteAddr().String())
	local, _, _ := net.SplitHostPort(connection.LocalAddr().String())
	c.mu.Lock()
	defer c.mu.Unlock()
	if remote != local {
		c.all += n
	}
	if c.by[remote] += n; c.by[remote] == 0 {
		delete(c.by, remote)
	}
	if n > 0 && (c.by[remote] > maxOfAddress || remote != local && c.all > maxConnections) {
		_ = connection.Close()
	}
}

// Addr returns the address that is listened on.
func (s *Server) Addr() string { return s.listener.Addr().String() }

// Run serves until ctx is done, then gives pending responses a few seconds to finish. A client that
// takes longer, or has not sent a request yet, is disconnected, which is not an error. It may be
// called once.
func (s *Server) Run(ctx context.Context) error {
	failed := make(chan error, 1)
	go func() { failed <- s.server.Serve(s.listener) }()
	select {
	case err := <-failed:
		return fmt.Errorf("serving HTTP: %w", err)
	case <-ctx.Done():
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	_ = s.server.Shutdown(last)
	_ = s.server.Close() // who takes longer is disconnected
	return nil
}
