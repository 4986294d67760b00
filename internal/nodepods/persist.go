package nodepods

import (
	"context"
	"errors"
	"math"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
)

// A request that failed is sent again after a second, then after twice as long each
// time, up to longestWait. The reflector itself waits up to a minute between two
// attempts, whatever it is configured to (client-go's informers do not hand the setting
// on): a minute after an outage evictd would still decide by the pods from before it.
const (
	firstWait   = time.Second
	longestWait = 6 * time.Second
	// jitter keeps the agents of many nodes from coming back together.
	jitter = 0.2
)

// persist asks until the API server has answered, or with something that the reflector
// must see. What failed is reported, with what was asked for.
func (s *source) persist(ctx context.Context, what string, ask func() error) error {
	backoff := wait.Backoff{Duration: firstWait, Factor: 2, Cap: longestWait, Steps: math.MaxInt32, Jitter: jitter}
	var err error
	_ = backoff.DelayFunc().Until(ctx, true, true, func(context.Context) (bool, error) {
		if err = ask(); err == nil || !passing(err) {
			return true, nil
		}
		s.report(ctx, what, err)
		return false, nil
	}) // it ends with the context otherwise, and then what failed last is the reason
	return err
}

// passing reports whether a failure says nothing about the request: no connection, an
// API server that is overloaded, broken or does not know the credentials (yet). All
// else means something to the reflector: a version that is not kept any more, one that
// is not there yet, a way of listing that the server does not know.
func passing(err error) bool {
	var answer apierrors.APIStatus
	if !errors.As(err, &answer) {
		return true
	}
	if apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge) {
		return false
	}
	switch code := answer.Status().Code; code {
	case http.StatusTooManyRequests, http.StatusUnauthorized, http.StatusForbidden:
		return true
	default:
		return code >= http.StatusInternalServerError
	}
}
