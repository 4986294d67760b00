package decide

import (
	"time"

	"github.com/evictd/evictd/pkg/rank"
)

// GracePeriod returns a grace period as the API writes it, in seconds, limited to a year. The API
// takes any int64; ten thousand million seconds would otherwise overflow to a time in the past, and
// the victim would be stuck at once. A negative one means one second to the API server
// (k8s.io/apiserver pkg/registry/rest/delete.go, BeforeDelete).
func GracePeriod(seconds int64) time.Duration {
	const year = 365 * 24 * 60 * 60
	if seconds < 0 {
		seconds = 1
	}
	return time.Duration(min(seconds, year)) * time.Second
}

// CapGrace returns the grace period for the request, in seconds: the limit where it is shorter than
// the pod's own, else nil, which is the pod's own. It never lengthens; a limit of 0 is none.
func CapGrace(limit int64, pod *rank.Pod) *int64 {
	if limit <= 0 || limit >= pod.GraceSeconds {
		return nil
	}
	return &limit
}
