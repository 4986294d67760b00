package plugin

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/evictd/evictd/internal/wording"
)

// right is one right of RBAC.
type right struct{ verb, resource, namespace string }

// missingRightError is a request that the API server forbids.
type missingRightError struct{ right right }

// Error names the right.
func (m missingRightError) Error() string {
	return fmt.Sprintf("the API server forbids it: the account lacks the right to %s %s in namespace %s",
		m.right.verb, m.right.resource, m.right.namespace)
}

// explain says in one sentence why a request failed. Right is what it needs.
func (c *cluster) explain(doing string, err error, needs right) error {
	var status apierrors.APIStatus
	unsent := (*net.OpError)(nil)
	switch {
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%s: %w", doing, missingRightError{needs})
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("%s: the API server at %s does not accept the credentials; log in again", doing, c.config.Host)
	case errors.As(err, &status):
		return fmt.Errorf("%s: %s", doing, wording.OneLine(err.Error()))
	case errors.As(err, &unsent):
		return fmt.Errorf("%s: no answer from the API server at %s: %w", doing, c.config.Host, withoutURL(err))
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%s: no answer in time", doing)
	default:
		return fmt.Errorf("%s: %s", doing, wording.OneLine(withoutURL(err).Error()))
	}
}

// withoutURL removes the request's URL from an error.
func withoutURL(err error) error {
	if failed, wrapped := errors.AsType[*url.Error](err); wrapped {
		return failed.Err
	}
	return err
}
