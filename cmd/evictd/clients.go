package main

import (
	"fmt"

	"k8s.io/client-go/rest"

	"github.com/evictd/evictd/internal/apiclient"
)

// clients are the clients for the API server; see [apiclient.Clients].
type clients struct {
	config   *rest.Config
	origin   string // where the credentials are from, in words
	watching *apiclient.Client
	evicting *apiclient.Client
	telling  *apiclient.Client
	nodes    nodeReader // by the client for telling
}

// newClients builds the clients with the credentials that the flags name. They report failed
// requests to tell; nil reports none.
func newClients(flags *whereFlags, tell apiclient.Failed) (*clients, error) {
	base, err := flags.restConfig()
	if err != nil {
		return nil, err
	}
	base.UserAgent = "evictd/" + buildVersion() + flags.purpose
	made, err := apiclient.New(base, tell)
	if err != nil {
		return nil, fmt.Errorf("using %s: %w", flags.origin(), err)
	}
	return &clients{
		config: base, origin: flags.origin(),
		watching: made.Watching, evicting: made.Evicting, telling: made.Telling,
		nodes: made.Telling.Nodes(),
	}, nil
}
