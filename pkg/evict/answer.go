package evict

import (
	"errors"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// IsNotFound reports whether the API server says that the requested object does not exist. A
// 404 that is not a Status of the API server, such as a proxy's error page, proves nothing.
func IsNotFound(err error) bool { return apierrors.IsNotFound(err) && !isForeign(err) }

// MayBeDone reports whether a request that failed may have been carried out: there was no
// response, or one that is not the API server's rejection. Its rejection of too many
// requests may be an error page (see isForeign).
func MayBeDone(err error) bool {
	var answer apierrors.APIStatus
	if !errors.As(err, &answer) {
		return true
	}
	code := answer.Status().Code
	return code >= http.StatusInternalServerError || isForeign(err) && code != http.StatusTooManyRequests
}
