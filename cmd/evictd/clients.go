package main

import (
	"fmt"
	"os"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
)

// unlimited switches off client-go's own limit of requests a second. Evictions are
// limited by the configuration; a wait inside the client would come at the worst
// moment and nobody would see it.
const unlimited = -1

// readTimeout bounds every request that is not a watch or an eviction.
const readTimeout = 15 * time.Second

// clients are the ways to the API server: evictions have one of their own, so that
// events and lists cannot starve them. client-go's transport sends all of them through
// one connection of HTTP/2, which the watch keeps open: the first eviction after a
// month waits for no handshake.
type clients struct {
	config   *rest.Config
	origin   string               // where the credentials are from, in words
	watching kubernetes.Interface // the pods; no timeout, or it would end the watch
	evicting kubernetes.Interface // the context bounds each request
	telling  kubernetes.Interface // events, and reads that can wait
}

// lostConnection says after how many seconds of silence client-go asks the API server for
// a sign of life, and how long it waits for one before it gives the connection up. Its own
// defaults, 30 and 15, would leave an eviction waiting for 45 s on a connection that
// something in between has forgotten. The environment is the only way to set them
// (k8s.io/apimachinery/pkg/util/net); what is set there already stays.
func lostConnection() error {
	for name, seconds := range map[string]string{
		"HTTP2_READ_IDLE_TIMEOUT_SECONDS": "10",
		"HTTP2_PING_TIMEOUT_SECONDS":      "5",
	} {
		if os.Getenv(name) != "" {
			continue
		}
		if err := os.Setenv(name, seconds); err != nil {
			return fmt.Errorf("setting %s: %w", name, err)
		}
	}
	return nil
}

// followToken reads a token's file again as soon as the API server refuses what was read
// before. Client-go by itself does so once a minute, whatever the answers are.
func followToken(c *rest.Config) {
	if c.BearerTokenFile == "" {
		return
	}
	c.Wrap(transport.ResettableTokenSourceWrapTransport(transport.NewCachedFileTokenSource(c.BearerTokenFile)))
	c.BearerToken, c.BearerTokenFile = "", ""
}

// newClients builds the clients with the credentials that the flags name. They tell of
// requests that failed; nil tells nobody.
func newClients(flags *whereFlags, tell failed) (*clients, error) {
	if err := lostConnection(); err != nil {
		return nil, err
	}
	base, err := flags.restConfig()
	if err != nil {
		return nil, err
	}
	base.UserAgent = "evictd/" + buildVersion()
	followToken(base)
	pods := rest.CopyConfig(base)
	evictions := rest.CopyConfig(base)
	evictions.QPS = unlimited
	others := rest.CopyConfig(base)
	others.Timeout = readTimeout
	c := &clients{config: base, origin: flags.origin()}
	for _, one := range []struct {
		config *rest.Config
		client *kubernetes.Interface
	}{{pods, &c.watching}, {evictions, &c.evicting}, {others, &c.telling}} {
		countFailures(one.config, tell)
		made, err := kubernetes.NewForConfig(one.config)
		if err != nil {
			return nil, fmt.Errorf("building a client of the API server from %s: %w", c.origin, err)
		}
		*one.client = made
	}
	return c, nil
}
