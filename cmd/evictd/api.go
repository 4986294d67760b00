package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/url"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// apiFault is why a request to the API server failed, as far as what to do about
// it differs.
type apiFault uint8

const (
	// faultUnreached: no answer came.
	faultUnreached apiFault = iota
	// faultUntrusted: whoever answers cannot prove to be the API server.
	faultUntrusted
	// faultCredentials: it does not know who asks.
	faultCredentials
	// faultRight: it knows who asks, and says no.
	faultRight
	// faultServer: it answered with some other fault.
	faultServer
)

// apiFaultOf tells the faults of a request apart.
func apiFaultOf(err error) apiFault {
	if _, untrusted := errors.AsType[*tls.CertificateVerificationError](err); untrusted {
		return faultUntrusted
	}
	var status apierrors.APIStatus
	switch answered := errors.As(err, &status); {
	case !answered:
		return faultUnreached
	case apierrors.IsUnauthorized(err):
		return faultCredentials
	case apierrors.IsForbidden(err):
		return faultRight
	default:
		return faultServer
	}
}

// explain says why a request to the API server failed and what to do. Right is what
// the request needs, as RBAC words it.
func (c *clients) explain(err error, right string) error {
	server := c.config.Host
	switch apiFaultOf(err) {
	case faultUnreached:
		return fmt.Errorf("no answer from the API server at %s; check that it runs there and that this machine reaches it: %w",
			server, withoutURL(err))
	case faultUntrusted:
		return fmt.Errorf("the certificate of the API server at %s cannot be trusted; check the certificate authority in %s: %w",
			server, c.origin, withoutURL(err))
	case faultCredentials:
		return fmt.Errorf("the API server at %s does not accept the credentials; renew the token or certificate in %s: %w",
			server, c.origin, err)
	case faultRight:
		return fmt.Errorf("the account lacks the right to %s; grant it, as the ClusterRole in deploy/daemonset.yaml does: %w", right, err)
	default:
		return fmt.Errorf("the API server at %s answers with a fault; look at its log: %w", server, err)
	}
}

// withoutURL leaves out the request's URL: the server is named already, and the
// rest of it tells an administrator nothing.
func withoutURL(err error) error {
	if failed, wrapped := errors.AsType[*url.Error](err); wrapped {
		return failed.Err
	}
	return err
}
