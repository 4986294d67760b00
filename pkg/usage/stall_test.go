package usage

import (
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/evictd/evictd/internal/testing/kernelfiletest"
)

// TestStalls: a pod on cgroup v1 met a limit of its own when the kernel counted it, or when a group used all of its limit
// and was charged more.
func TestStalls(t *testing.T) {
	t.Parallel()
	for name, version := range kernelfiletest.Versions() {
		want := []Stall{{UID: guaranteedUID, LimitHits: 3 + 20 + 100}, {UID: burstableUID}}
		if version == v2 {
			want = []Stall{{UID: guaranteedUID, LimitHits: 3 + 5, Waited: 3000, WaitedKnown: true}, {UID: burstableUID, WaitedKnown: true}}
		}
		got, err := mustOpen(t, twoPods(version).Plant(t), "kubepods").Stalls()
		if diff := gocmp.Diff(want, sorted(got)); err != nil || diff != "" {
			t.Errorf("%s: %v, stalls (-want +got):\n%s", name, err, diff)
		}
	}
}
