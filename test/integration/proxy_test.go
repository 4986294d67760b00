package integration

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"regexp"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// proxy is in front of the real API server and can respond in its place. It uses HTTP/2, as
// the API server does: one connection carries evictd's watch and its evictions.
type proxy struct {
	t       *testing.T
	server  *httptest.Server
	ca      authority
	serving atomic.Pointer[tls.Certificate]
	// answer returns true when it has responded in the API server's place.
	answer atomic.Pointer[func(http.ResponseWriter, *http.Request) bool]
	// answered, if set, is called for a request that the API server has completed, before
	// any part of the response is forwarded.
	answered atomic.Pointer[func(*http.Request)]
	watches  gate
	// skew is added to every time in the API server's responses.
	skew atomic.Int64
}

// newProxy returns a proxy before the shared API server.
func newProxy(t *testing.T) *proxy {
	t.Helper()
	config := rest.AnonymousClientConfig(shared.RESTConfig()) // a request brings its own credentials
	transport, err := rest.TransportFor(config)
	if err != nil {
		t.Fatal(err)
	}
	target, err := url.Parse(config.Host)
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{t: t, ca: newAuthority(t)}
	p.rotate()
	behind := &httputil.ReverseProxy{
		Transport:     transport,
		FlushInterval: -1, // forward watch events at once
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			if p.skew.Load() != 0 { // skewed needs text, but evictd requests protobuf
				r.Out.Header.Del("Accept-Encoding")
				r.Out.Header.Set("Accept", "application/json")
			}
		},
		ModifyResponse: func(r *http.Response) error {
			if tell := p.answered.Load(); tell != nil {
				(*tell)(r.Request)
			}
			if p.skew.Load() != 0 {
				r.Body = &skewed{ReadCloser: r.Body, by: &p.skew}
			}
			if isWatch(r.Request) {
				r.Body = &gated{ReadCloser: r.Body, by: &p.watches}
			}
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}
	p.server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if answer := p.answer.Load(); answer != nil && (*answer)(w, r) {
			return
		}
		behind.ServeHTTP(w, r)
	}))
	p.server.EnableHTTP2 = true
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
	t.Cleanup(func() {
		p.holdWatches(false)
		p.server.CloseClientConnections() // otherwise Close would wait for a watch
		p.server.Close()
	})
	return p
}

// instead makes a function respond in the API server's place; nil ends that.
func (p *proxy) instead(answer func(http.ResponseWriter, *http.Request) bool) {
	if answer == nil {
		p.answer.Store(nil)
		return
	}
	p.answer.Store(&answer)
}

// after calls a function for each completed request; nil ends that.
func (p *proxy) after(tell func(*http.Request)) {
	if tell == nil {
		p.answered.Store(nil)
		return
	}
	p.answered.Store(&tell)
}

// holdWatches holds back the events of every watch, or forwards them.
func (p *proxy) holdWatches(hold bool) { p.watches.set(hold) }

// gate is open or closed. Its zero value is open.
type gate struct {
	mu     sync.Mutex
	closed chan struct{} // nil while it is open
}

func (g *gate) set(shut bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed != nil {
		close(g.closed)
		g.closed = nil
	}
	if shut {
		g.closed = make(chan struct{})
	}
}

func (g *gate) pass() {
	g.mu.Lock()
	closed := g.closed
	g.mu.Unlock()
	if closed != nil {
		<-closed
	}
}

// gated is a body that is read through a gate.
type gated struct {
	io.ReadCloser

	by *gate
}

func (g *gated) Read(into []byte) (int, error) {
	n, err := g.ReadCloser.Read(into)
	g.by.pass()
	return n, err //nolint:wrapcheck // as it is
}

// rotate gives the proxy another serving certificate of the same authority.
func (p *proxy) rotate() {
	p.t.Helper()
	p.serving.Store(p.ca.issue(p.t))
}

// authority is a separate certificate authority.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	pem         []byte
}

func newAuthority(tb testing.TB) authority {
	tb.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	key := newKey(tb)
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		tb.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		tb.Fatal(err)
	}
	return authority{certificate, key, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}
}

func (a *authority) issue(tb testing.TB) *tls.Certificate {
	tb.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	key := newKey(tb)
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, &key.PublicKey, a.key)
	if err != nil {
		tb.Fatal(err)
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func newKey(tb testing.TB) *ecdsa.PrivateKey {
	tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	return key
}

// timestamps are the times in the API server's JSON.
var timestamps = regexp.MustCompile(`"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"`)

// skewed adds to every time in a body, which it forwards line by line: each event of a watch
// is one line.
type skewed struct {
	io.ReadCloser

	by     *atomic.Int64
	source []byte // read but not processed
	ready  []byte // processed but not forwarded
	err    error
}

func (s *skewed) Read(into []byte) (int, error) {
	for len(s.ready) == 0 && s.err == nil {
		chunk := make([]byte, 32<<10)
		n, err := s.ReadCloser.Read(chunk)
		s.source, s.err = append(s.source, chunk[:n]...), err
		end := bytes.LastIndexByte(s.source, '\n') + 1
		if err != nil {
			end = len(s.source)
		}
		s.ready = timestamps.ReplaceAllFunc(s.source[:end], s.later)
		s.source = s.source[end:]
	}
	n := copy(into, s.ready)
	s.ready = s.ready[n:]
	if n == 0 {
		return 0, s.err
	}
	return n, nil
}

func (s *skewed) later(text []byte) []byte {
	at, err := time.Parse(`"`+time.RFC3339+`"`, string(text))
	if err != nil {
		return text
	}
	return []byte(at.Add(time.Duration(s.by.Load())).Format(`"` + time.RFC3339 + `"`))
}
