package main

import (
	"fmt"

	"k8s.io/client-go/rest"

	"github.com/evictd/evictd/internal/apiclient"
)

// clients are the clients for the API server; see [apiclient.Clients].
type clients struct {
	*apiclient.Clients

	config *rest.Config
	origin string     // where the credentials are from, in words
	nodes  nodeReader // by the client for telling
}

// newClients builds the clients with the credentials that the flags name. Purpose is added to the user agent
// of their requests. They report failed ones to tell; nil reports none.
func newClients(flags *runFlags, purpose string, tell apiclient.Failed) (*clients, error) {
	base, err := flags.restConfig()
	if err != nil {
		return nil, err
	}
	base.UserAgent = "evictd/" + buildVersion() + purpose
	made, err := apiclient.New(base, tell)
	if err != nil {
		return nil, fmt.Errorf("using %s: %w", flags.origin(), err)
	}
	return &clients{made, base, flags.origin(), made.Telling.Nodes()}, nil
}
