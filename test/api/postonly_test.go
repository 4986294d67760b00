package api

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"sync/atomic"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/evictd/evictd/test/internal/evictdtest"
)

// postOnly is a proxy before the API server that refuses WebSockets.
type postOnly struct {
	server            *httptest.Server
	refused, upgraded atomic.Int32 // requests
}

func newPostOnly(t *testing.T) *postOnly {
	t.Helper()
	config := evictdtest.Cluster().RESTConfig()
	trust, err := rest.TLSConfigFor(config)
	if err != nil {
		t.Fatal(err)
	}
	target, err := url.Parse(config.Host)
	if err != nil {
		t.Fatal(err)
	}
	p := &postOnly{}
	behind := &httputil.ReverseProxy{
		Transport: &http.Transport{TLSClientConfig: trust}, // HTTP/1.1, which alone can be upgraded
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(target) },
	}
	p.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get("Upgrade") == "websocket":
			p.refused.Add(1)
			http.Error(w, "no WebSockets here", http.StatusBadRequest)
			return
		case r.Header.Get("Upgrade") != "":
			p.upgraded.Add(1)
		}
		behind.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		p.server.CloseClientConnections()
		p.server.Close()
	})
	return p
}

// kubeconfig leads to the proxy, which has the administrator's credentials.
func (p *postOnly) kubeconfig(t *testing.T) string {
	t.Helper()
	file := clientcmdapi.NewConfig()
	file.Clusters["c"] = &clientcmdapi.Cluster{Server: p.server.URL}
	file.Contexts["x"] = &clientcmdapi.Context{Cluster: "c"}
	file.CurrentContext = "x"
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*file, path); err != nil {
		t.Fatal(err)
	}
	return path
}
