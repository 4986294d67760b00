package main

import (
	"fmt"

	"k8s.io/client-go/rest"

	"github.com/evictd/evictd/internal/apiclient"
)

// clients are the clients for the API server.
type clients struct {
	*apiclient.Clients

	config *rest.Config
}

// newClients builds the clients with the credentials that the flags name. Purpose is added to the user agent
// of their requests.
func newClients(flags *runFlags, purpose string) (*clients, error) {
	base, err := flags.restConfig()
	if err != nil {
		return nil, err
	}
	base.UserAgent = "evictd/" + version + purpose
	made, err := apiclient.New(base)
	if err != nil {
		return nil, fmt.Errorf("using %s: %w", flags.origin(), err)
	}
	return &clients{made, base}, nil
}
