// Package apiclient makes evictd's clients of the API server from credentials: which requests
// share a connection, which of them have a time limit, and how soon a lost connection and an
// expired token are noticed. They send the same requests as client-go's clientset, which links the
// types of all API groups into the program; see docs/adr/0033-clients-of-three-api-groups.md.
package apiclient

import (
	"cmp"
	"os"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
)

// unlimited switches off client-go's own rate limit. The configuration limits evictions; a
// wait inside the client would come at the worst moment and would not be visible.
const unlimited = -1

// readTimeout bounds every request that is not a watch or an eviction.
const readTimeout = 15 * time.Second

// Clients are the clients for the API server. Evictions have their own, so that events and
// lists cannot starve them. client-go's transport sends all of them through one HTTP/2
// connection, which the watch keeps open: the first eviction after a month needs no
// handshake.
type Clients struct {
	// Watching is for the pods, and the ConfigMap that stops evictd. It has no timeout, or it would end the watch.
	Watching *Client
	// Evicting is for evictions and taints. Each request's context sets its timeout.
	Evicting *Client
	// Telling is for Events, and for reads that can wait.
	Telling *Client
	// Config has the credentials, and the server's address as Host.
	Config *rest.Config
}

// New makes the clients with the credentials of base, which it changes: the token file is
// re-read as soon as the API server rejects its previous content. With an error they cannot be used.
func New(base *rest.Config) (*Clients, error) {
	lostConnection()
	followToken(base)
	watches, evictions, others := rest.CopyConfig(base), rest.CopyConfig(base), rest.CopyConfig(base)
	evictions.QPS, others.Timeout = unlimited, readTimeout
	watching, err := newClient(watches)
	evicting, fault := newClient(evictions)
	telling, bad := newClient(others)
	return &Clients{watching, evicting, telling, base}, cmp.Or(err, fault, bad) // all have one configuration
}

// lostConnection sets after how many seconds of silence client-go pings the API server, and
// how long it waits for the reply before it closes the connection. With its own defaults, 30
// and 15, an eviction would wait for 45 s on a connection that a device in between has
// dropped. Only the environment can set them (k8s.io/apimachinery/pkg/util/net); values that
// are already set are kept.
func lostConnection() {
	for name, seconds := range map[string]string{
		"HTTP2_READ_IDLE_TIMEOUT_SECONDS": "10",
		"HTTP2_PING_TIMEOUT_SECONDS":      "5",
	} {
		if os.Getenv(name) == "" {
			_ = os.Setenv(name, seconds) // it refuses other names alone
		}
	}
}

// followToken re-reads a token file as soon as the API server rejects its previous content.
// By itself client-go re-reads it once a minute, whatever the responses are.
func followToken(c *rest.Config) {
	if c.BearerTokenFile == "" {
		return
	}
	c.Wrap(transport.ResettableTokenSourceWrapTransport(transport.NewCachedFileTokenSource(c.BearerTokenFile)))
	c.BearerToken, c.BearerTokenFile = "", ""
}
