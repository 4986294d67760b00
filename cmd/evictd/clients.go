package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/url"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
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

// apiFault says what a failed request to the API server comes to. Each kind of fault needs another fix, and has
// its own message in the log while the node cannot be read: the consequence for the pods until it can. Right is
// the right that the request needs, in RBAC's terms.
func (c *clients) apiFault(err error, right string) (message string, explained error) {
	server := c.config.Host
	_, untrusted := errors.AsType[*tls.CertificateVerificationError](err)
	var status apierrors.APIStatus
	switch {
	case untrusted:
		return "the API server cannot be trusted; no pod is evicted until it can",
			fmt.Errorf("the certificate of the API server at %s cannot be trusted; check the certificate authority in %s: %w",
				server, c.origin, withoutURL(err))
	case !errors.As(err, &status):
		return "the API server does not answer; no pod is evicted until it does",
			fmt.Errorf("no answer from the API server at %s; check that it runs there and that this machine reaches it: %w",
				server, withoutURL(err))
	case apierrors.IsUnauthorized(err):
		return "the API server does not accept the credentials; no pod is evicted until it does",
			fmt.Errorf("the API server at %s does not accept the credentials; renew the token or certificate in %s: %w",
				server, c.origin, err)
	case apierrors.IsForbidden(err):
		return "the node may not be read; until then its capacity is not checked and no pod is evicted for disk",
			fmt.Errorf("the account lacks the right to %s; grant it, as the ClusterRole in deploy/daemonset.yaml does: %w", right, err)
	default:
		return "the node cannot be read; trying again",
			fmt.Errorf("the API server at %s answers with a fault; look at its log: %w", server, err)
	}
}

// explain says why a request to the API server failed and how to fix it.
func (c *clients) explain(err error, right string) error {
	_, explained := c.apiFault(err, right)
	return explained
}

// withoutURL removes the request's URL: the message already names the server, and the rest
// of the URL does not help an administrator.
func withoutURL(err error) error {
	if failed, wrapped := errors.AsType[*url.Error](err); wrapped {
		return failed.Err
	}
	return err
}
