package acting

import (
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// refusedFor is how long what was known last holds while the API server answers and does not tell.
// A server that starts refuses for some seconds before it has read its roles.
const refusedFor = 30 * time.Second

// answers says for how long what the API server told last can be relied on.
//
// While there is no answer at all, it holds without a limit. All requests of an agent use one
// connection: where this one has no answer, an eviction has none either, so that there is nothing to
// stop. A server that refuses this request may still accept evictions; so its last answer holds for
// refusedFor only, and then counts as unknown, whatever follows the first refusal.
type answers struct {
	told    bool      // the API server has told at least once
	refused time.Time // since when it answers and does not tell; zero when it tells
	fault   error     // the first since it last told; nil when it has
}

// tell notes that the API server has told.
func (a *answers) tell() { *a = answers{told: true} }

// fail notes that it has not.
func (a *answers) fail(err error, now time.Time) {
	var answered apierrors.APIStatus
	if errors.As(err, &answered) && a.refused.IsZero() {
		a.refused, a.fault = now, err
	}
	if a.fault == nil {
		a.fault = err
	}
}

// known reports whether what was told last still holds.
func (a *answers) known(now time.Time) bool {
	return a.told && (a.refused.IsZero() || now.Sub(a.refused) < refusedFor)
}
