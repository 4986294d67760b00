package evict

import (
	"errors"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// IsNotFound reports whether the API server says that what was asked for is not there. A 404
// that is no Status of the API server, such as a proxy's page, proves nothing.
func IsNotFound(err error) bool { return apierrors.IsNotFound(err) && !isForeign(err) }

// MayBeDone reports whether a request that failed may have been carried out: there was no
// answer, or one that is not the API server's refusal. Its refusal of too many requests may
// come as a page (see isForeign).
func MayBeDone(err error) bool {
	var answer apierrors.APIStatus
	if !errors.As(err, &answer) {
		return true
	}
	code := answer.Status().Code
	return code >= http.StatusInternalServerError || isForeign(err) && code != http.StatusTooManyRequests
}
