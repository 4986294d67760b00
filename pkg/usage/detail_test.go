package usage

import (
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/evictd/evictd/internal/testing/kernelfiletest"
)

// TestDetail: each figure is that of its file, below the mount that the tree was opened with.
func TestDetail(t *testing.T) {
	t.Parallel()
	for name, version := range kernelfiletest.Versions() {
		want := Detail{"anonymous": 500, "file": 40}
		if version == v2 {
			want = Detail{
				"anonymous": 500, "file": 40, "shared": 50, "kernel_stacks": 16, "slab": 13, "sockets": 4, "swap": 7, "oom_kills": 5,
			}
		}
		got, err := mustOpen(t, twoPods(version).Plant(t), "kubepods").Detail(guaranteedUID)
		if diff := gocmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v, detail (-want +got):\n%s", name, err, diff)
		}
	}
}
