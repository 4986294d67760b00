package decide

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evictd/evictd/pkg/rank"
)

// Guards invariant 7: a grace period is never lengthened, and shortened only as
// far as the configuration says.
func TestInvariant07GraceIsNeverLengthened(t *testing.T) {
	t.Parallel()
	five := int64(5)
	for _, test := range []struct {
		name       string
		soft, hard int64
		isHard     bool
		podsOwn    int64
		want       *int64
	}{
		{"no cap: the pod's own", 0, 0, true, 30, nil},
		{"a hard cap does not touch a soft eviction", 0, 5, false, 30, nil},
		{"a soft cap does not touch a hard eviction", 5, 0, true, 30, nil},
		{"a cap shorter than the pod's own", 0, 5, true, 30, &five},
		{"a cap as long as the pod's own", 0, 5, true, 5, nil},
		{"a cap longer than the pod's own", 0, 5, true, 2, nil},
		{"a soft cap shorter than the pod's own", 5, 0, false, 30, &five},
		{"a pod that wants none", 5, 5, true, 0, nil},
	} {
		policy := Policy{SoftGrace: test.soft, HardGrace: test.hard}
		if diff := cmp.Diff(test.want, policy.grace(test.isHard, &rank.Pod{GraceSeconds: test.podsOwn})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
}
