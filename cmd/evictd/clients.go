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

// clients are the clients for the API server.
type clients struct {
	*apiclient.Clients

	config *rest.Config
	origin string // where the credentials are from, in words
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
	return &clients{made, base, flags.origin()}, nil
}

// explain says why a request to the API server failed and how to fix it: each kind of fault needs another fix.
// Right is the right that the request needs, in RBAC's terms. The error names the server, so that the request's
// URL would not help an administrator.
func (c *clients) explain(err error, right string) error {
	server := c.config.Host
	if failed, wrapped := errors.AsType[*url.Error](err); wrapped {
		err = failed.Err
	}
	_, untrusted := errors.AsType[*tls.CertificateVerificationError](err)
	var status apierrors.APIStatus
	switch {
	case untrusted:
		return fmt.Errorf("the certificate of the API server at %s cannot be trusted; check the certificate authority in %s: %w", server, c.origin, err)
	case !errors.As(err, &status):
		return fmt.Errorf("no answer from the API server at %s; check that it runs there and that this machine reaches it: %w", server, err)
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("the API server at %s does not accept the credentials; renew the token or certificate in %s: %w", server, c.origin, err)
	case apierrors.IsForbidden(err):
		return fmt.Errorf("the account lacks the right to %s; grant it, as the ClusterRole in deploy/daemonset.yaml does: %w", right, err)
	default:
		return fmt.Errorf("the API server at %s answers with a fault; look at its log: %w", server, err)
	}
}
