package usage

import (
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/evictd/evictd/internal/testing/kernelfiletest"
)

// TestDetailAndStalls: each figure is that of its file, below the mount that the tree was opened with. A pod on cgroup
// v1 met a limit of its own when the kernel counted it, or when a group used all of its limit and was charged more.
func TestDetailAndStalls(t *testing.T) {
	t.Parallel()
	for name, version := range kernelfiletest.Versions() {
		detail := Detail{"anonymous": 500, "file": 40}
		stalls := []Stall{{UID: guaranteedUID, LimitHits: 3 + 20 + 100}, {UID: burstableUID}}
		if version == v2 {
			detail = Detail{
				"anonymous": 500, "file": 40, "shared": 50, "kernel_stacks": 16, "slab": 13, "sockets": 4, "swap": 7, "oom_kills": 5,
			}
			stalls = []Stall{{UID: guaranteedUID, LimitHits: 3 + 5, Waited: 3000, WaitedKnown: true}, {UID: burstableUID, WaitedKnown: true}}
		}
		tree := mustOpen(t, twoPods(version).Plant(t), "kubepods")
		got, err := tree.Detail(guaranteedUID)
		waited, fault := tree.Stalls()
		must(t, err, fault)
		if diff := gocmp.Diff(detail, got) + gocmp.Diff(stalls, sorted(waited)); diff != "" {
			t.Errorf("%s: detail and stalls (-want +got):\n%s", name, diff)
		}
	}
}
