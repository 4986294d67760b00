package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/url"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// apiFault is the kind of fault of a request to the API server. Each kind needs a different
// fix.
type apiFault uint8

const (
	// faultUnreached: there was no response.
	faultUnreached apiFault = iota
	// faultUntrusted: the server cannot prove to be the API server.
	faultUntrusted
	// faultCredentials: the server does not know the account.
	faultCredentials
	// faultRight: the server knows the account and denies the request.
	faultRight
	// faultServer: the server returned another error.
	faultServer
)

// apiFaultOf returns the kind of a request's fault.
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

// explain says why a request to the API server failed and how to fix it. Right is the right
// that the request needs, in RBAC's terms.
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

// withoutURL removes the request's URL: the message already names the server, and the rest
// of the URL does not help an administrator.
func withoutURL(err error) error {
	if failed, wrapped := errors.AsType[*url.Error](err); wrapped {
		return failed.Err
	}
	return err
}
