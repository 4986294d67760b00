package decide_test

import (
	"math"
	"testing"
	"time"

	"github.com/evictd/evictd/internal/decide"
)

// TestFaultNegativeGraceIsOneSecond: the API server accepts any negative grace period as one second
// (k8s.io/apiserver pkg/registry/rest/delete.go, BeforeDelete).
func TestFaultNegativeGraceIsOneSecond(t *testing.T) {
	t.Parallel()
	for _, n := range []int64{-1, -13835058055, math.MinInt64} {
		if got := decide.GracePeriod(n); got != time.Second {
			t.Errorf("%d seconds are %v, want 1s", n, got)
		}
	}
}
