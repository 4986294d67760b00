package usage

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

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
		return err != nil || at(d, "file") >= (shared+cache-1)*mib
	})
	if err != nil || d["oom_kills"] > 0 {
		t.Fatalf("%+v, %v; want no kill", d, err)
	}
	near(t, "anonymous", at(d, "anonymous"), anonymous*mib, podSlack)
	near(t, "file", at(d, "file"), (shared+cache)*mib, podSlack+cache/2*mib)
	t.Logf("%s", text(d))
	if none, err := tree.Detail(guaranteedUID); !errors.Is(err, unix.ENOENT) || none != nil {
		t.Errorf("a pod that has none: %+v, %v", none, err)
	}
	return d
}

// at returns a figure; -1 where there is none.
func at(d Detail, figure string) int64 {
	n, known := d[figure]
	if !known {
		return -1
	}
	return int64(n)
}

// text writes the figures in their order; - is none.
func text(d Detail) string {
	var words []string
	for _, figure := range []string{"anonymous", "file", "shared", "kernel_stacks", "slab", "sockets", "swap", "oom_kills"} {
		words = append(words, strings.Replace(fmt.Sprint(at(d, figure)), "-1", "-", 1))
	}
	return strings.Join(words, " ")
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
	near(t, "shared", at(d, "shared"), 32*mib, podSlack)
	if at(d, "slab") < 4<<10 || at(d, "slab") > podSlack {
		t.Errorf("v2 tells %+v: %s", d, text(d))
	}
}

// plantDetail plants a node with a pod and returns its tree and the directory of the pod.
func plantDetail(t *testing.T, v version) (*Tree, string) {
	t.Helper()
	const pod = "kubepods/burstable/pod" + burstableUID
	group := files{
		"memory.stat":           "cache 1\nrss 2\ntotal_cache 50\ntotal_rss 100\ntotal_shmem 30\ntotal_swap 7\n",
		"memory.oom_control":    "oom_kill_disable 0\nunder_oom 0\noom_kill 9\n",
		"memory.usage_in_bytes": "999\n",
	}
	if v == v2 {
		group = files{
			"memory.stat":         "anon 100\nfile 50\nkernel 41\nkernel_stack 16\npagetables 12\nsock 4\nshmem 30\nslab 13\n",
			"memory.current":      "999\n",
			"memory.swap.current": "7\n",
			"memory.events":       "low 0\noom 3\noom_kill 5\n",
		}
	}
	node := v.Mount()
	for name, content := range group {
		node[filepath.Join(v.Dir("memory", pod), name)] = content
	}
	mount := node.Plant(t)
	return mustOpen(t, mount, "kubepods"), filepath.Join(mount, v.Dir("memory", pod))
}

// Each figure is that of its file, below the mount that the tree was opened with. One that is zero, missing
// or not a number is unknown, and never another number; a group without its memory.stat has no detail at all.
// The library accepts a truncated number, but the kernel truncates none.
func TestDetail(t *testing.T) {
	t.Parallel()
	breakages := spoils()
	delete(breakages, "cut off in a number")
	breakages["missing"] = kernelfiletest.Remove
	for v, test := range map[version]struct {
		want  string
		files []string
	}{
		v1:     {"100 50 - - - - - -", []string{"memory.stat"}},
		hybrid: {"100 50 - - - - - -", []string{"memory.stat"}},
		v2:     {"100 50 30 16 13 4 7 5", []string{"memory.stat", "memory.swap.current", "memory.events"}},
	} {
		tree, _ := plantDetail(t, v)
		if d, err := tree.Detail(burstableUID); err != nil || text(d) != test.want {
			t.Errorf("%+v: %+v, %v; want %s", v, d, err, test.want)
		}
		for _, name := range test.files {
			for kind, spoil := range breakages {
				tree, dir := plantDetail(t, v)
				spoil(t, filepath.Join(dir, name))
				d, err := tree.Detail(burstableUID)
				if (err == nil) != (d != nil) || err == nil && name == "memory.stat" && kind == "missing" {
					t.Errorf("%s %s: %+v and %v", name, kind, d, err)
				}
				if d == nil {
					continue
				}
				for i, figure := range strings.Fields(text(d)) {
					if whole := strings.Fields(test.want)[i]; figure != whole && figure != "-" {
						t.Errorf("%s %s: figure %d is %s, not %s", name, kind, i, figure, whole)
					}
				}
			}
		}
	}
}
