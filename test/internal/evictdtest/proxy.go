package evictdtest

import (
	"crypto/tls"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/evictd/evictd/test/cluster"
)

// Proxy is in front of the real API server and can respond in its place. It uses HTTP/2, as the API
// server does: one connection carries evictd's watch and its evictions.
type Proxy struct {
	CA   []byte // the certificate of its authority
	Link *Link  // the connections to it

	t       testing.TB
	dir     string // of the certificates
	by      *cluster.Authority
	server  *httptest.Server
	serving atomic.Pointer[tls.Certificate]
	// answer returns true when it has responded in the API server's place.
	answer atomic.Pointer[func(http.ResponseWriter, *http.Request) bool]
	// answered, if set, is called for a request that the API server has completed, before
	// any part of the response is forwarded.
	answered atomic.Pointer[func(*http.Request)]
	watches  sync.RWMutex // locked while their events are held back
	held     bool
}

// watched is the body of a watch.
type watched struct {
	io.ReadCloser

	by *sync.RWMutex
}

// Read implements [io.Reader].
func (w *watched) Read(into []byte) (int, error) {
	n, err := w.ReadCloser.Read(into)
	w.by.RLock()
	defer w.by.RUnlock()
	return n, err //nolint:wrapcheck // as it is
}

// NewProxy returns a proxy before the shared API server.
func NewProxy(tb testing.TB) *Proxy {
	tb.Helper()
	config := rest.AnonymousClientConfig(shared.RESTConfig()) // a request brings its own credentials
	transport, err := rest.TransportFor(config)
	must(tb, err)
	target, err := url.Parse(config.Host)
	must(tb, err)
	p := &Proxy{t: tb, dir: tb.TempDir(), Link: newLink(tb)}
	p.by, err = cluster.NewAuthority(p.dir)
	must(tb, err)
	p.CA, err = os.ReadFile(filepath.Join(p.dir, "ca.crt"))
	must(tb, err)
	p.Rotate()
	behind := &httputil.ReverseProxy{
		Transport:     transport,
		FlushInterval: -1, // forward watch events at once
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		ModifyResponse: func(r *http.Response) error {
			if tell := p.answered.Load(); tell != nil && *tell != nil {
				(*tell)(r.Request)
			}
			if IsWatch(r.Request) {
				r.Body = &watched{ReadCloser: r.Body, by: &p.watches}
			}
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}
	answering := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if answer := p.answer.Load(); answer != nil && *answer != nil && (*answer)(w, r) {
			return
		}
		behind.ServeHTTP(w, r)
	})
	p.server = &httptest.Server{Listener: p.Link, Config: &http.Server{Handler: answering}, EnableHTTP2: true} //nolint:gosec // of a test
	p.server.TLS = &tls.Config{
		MinVersion: tls.VersionTLS12,
		// Otherwise httptest's own certificate would be used.
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			return &tls.Config{
				MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{*p.serving.Load()}, NextProtos: []string{"h2"},
			}, nil
		},
	}
	p.server.StartTLS()
	tb.Cleanup(func() {
		p.HoldWatches(false)
		p.Link.set(func() { p.Link.held, p.Link.refuses = false, false })
		p.server.CloseClientConnections() // otherwise Close would wait for a watch
		p.server.Close()
	})
	return p
}

// Instead makes a function respond in the API server's place; nil ends that.
func (p *Proxy) Instead(answer func(http.ResponseWriter, *http.Request) bool) {
	p.answer.Store(&answer)
}

// After calls a function for each completed request; nil ends that.
func (p *Proxy) After(tell func(*http.Request)) { p.answered.Store(&tell) }

// HoldWatches holds back the events of every watch, or forwards them.
func (p *Proxy) HoldWatches(hold bool) {
	switch {
	case hold && !p.held:
		p.watches.Lock()
	case !hold && p.held:
		p.watches.Unlock()
	}
	p.held = hold
}

// Rotate gives the proxy another serving certificate of the same authority.
func (p *Proxy) Rotate() {
	p.t.Helper()
	must(p.t, p.by.Issue("proxy", cluster.Identity{Hosts: []string{"127.0.0.1"}}))
	pair, err := tls.LoadX509KeyPair(filepath.Join(p.dir, "proxy.crt"), filepath.Join(p.dir, "proxy.key"))
	must(p.t, err)
	p.serving.Store(&pair)
}

// Refuse responds as the API server and its proxies do in a failure: with a short text and the code.
func Refuse(w http.ResponseWriter, code int) bool {
	http.Error(w, http.StatusText(code), code)
	return true
}

// IsEviction reports whether a request is an eviction.
func IsEviction(r *http.Request) bool {
	return r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/eviction")
}

// IsWatch reports whether a request is a watch.
func IsWatch(r *http.Request) bool { return r.URL.Query().Get("watch") != "" }
