package usage

import (
	"errors"
	"path/filepath"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/internal/testing/cgrouptest"
	"github.com/evictd/evictd/internal/testing/kernelfiletest"
)

// detailed checks the detail of a real pod: the memory of its process, and the kernel's memory for that.
func detailed(t *testing.T, n *realNode) Detail {
	t.Helper()
	const anonymous, shared, cache = 64, 32, 16 // MiB
	_, p := n.pod(burstableUID)
	p.Do("anonymous %d", anonymous)
	p.Do("shared %d", shared)
	p.Do("cache %d %s", cache, filepath.Join(disk(t), "file"))
	tree := mustOpen(t, cgroupMount, n.kubepods)
	var d Detail
	var err error
	cgrouptest.Patiently(func() bool { // the kernel adds up in batches
		d, err = tree.Detail(burstableUID)
		return err != nil || int64(d["file"]) >= (shared+cache-1)*mib
	})
	if err != nil || d["oom_kills"] > 0 {
		t.Fatalf("%+v, %v; want no kill", d, err)
	}
	near(t, "anonymous", int64(d["anonymous"]), anonymous*mib, podSlack)
	near(t, "file", int64(d["file"]), (shared+cache)*mib, podSlack+cache/2*mib)
	t.Logf("%+v", d)
	if none, err := tree.Detail(guaranteedUID); !errors.Is(err, unix.ENOENT) || none != nil {
		t.Errorf("a pod that has none: %+v, %v", none, err)
	}
	return d
}

func TestRealPodDetailOnCgroup1(t *testing.T) {
	n := newRealNode(t)
	if n.Unified {
		t.Skip("SKIP: this machine has cgroup v2; TestCgroup2PodDetail is for it")
	}
	if d := detailed(t, n); len(d) != 2 {
		t.Errorf("v1 tells %+v", d)
	}
}

// TestCgroup2PodDetail: the kernel's memory for a pod is reported by its parts. The stacks of the process's
// threads belong to its parent: they existed before it joined.
func TestCgroup2PodDetail(t *testing.T) {
	d := detailed(t, newNode2(t, 400*mib))
	near(t, "shared", int64(d["shared"]), 32*mib, podSlack)
	if slab := int64(d["slab"]); slab < 4<<10 || slab > podSlack {
		t.Errorf("v2 tells %+v", d)
	}
}

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
