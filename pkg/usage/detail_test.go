package usage

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/internal/testing/kernelfiletest"
)

// detailed checks the detail of a real pod: the memory of its process, the kernel's memory
// for that, and a kill in one of its containers.
func detailed(t *testing.T, n *realNode, limit string) *Detail {
	t.Helper()
	const anonymous, shared, cache = 64, 32, 16 // MiB
	pod := n.kubepods + "/burstable/pod" + burstableUID
	p := n.inhabit(pod)
	p.do("anonymous %d", anonymous)
	p.do("shared %d", shared)
	p.do("cache %d %s", cache, filepath.Join(disk(t), "file"))
	n.group(pod + "/limited")
	if err := os.WriteFile(filepath.Join(n.hierarchy.Memory, pod, "limited", limit), []byte("41943040"), 0o644); err != nil {
		t.Fatal(err)
	}
	tree := mustOpen(t, cgroupMount, n.kubepods)
	if d, err := tree.Detail(burstableUID); err != nil || d.OOMKills != nil {
		t.Errorf("before a kill: %+v, %v", d, err)
	}
	overfill(n, pod+"/limited")
	d, err := tree.Detail(burstableUID)
	for end := time.Now().Add(2 * time.Minute); err == nil && at(d.Shared) < (shared-1)*mib && time.Now().Before(end); d, err = tree.Detail(burstableUID) {
		time.Sleep(50 * time.Millisecond) // the kernel adds up in batches
	}
	if err != nil {
		t.Fatal(err)
	}
	near(t, "anonymous", at(d.Anonymous), anonymous*mib, podSlack)
	near(t, "shared", at(d.Shared), shared*mib, podSlack)
	near(t, "file", at(d.File), (shared+cache)*mib, podSlack+cache/2*mib)
	// A kernel stack is 16 KiB, and a page table of 4 KiB maps 2 MiB.
	if kernel := at(d.Kernel); kernel < 16<<10+(anonymous+shared)<<20/512 || kernel > podSlack {
		t.Errorf("kernel memory is %d bytes", kernel)
	}
	if kills := at(d.OOMKills); kills != 1 {
		t.Errorf("%d kills", kills)
	}
	t.Logf("%s", text(d))
	if none, err := tree.Detail(guaranteedUID); !errors.Is(err, unix.ENOENT) || none != nil {
		t.Errorf("a pod that has none: %+v, %v", none, err)
	}
	return d
}

// at returns a figure; -1 where there is none.
func at(figure *int64) int64 {
	if figure == nil {
		return -1
	}
	return *figure
}

// text writes the figures in their order; - is none.
func text(d *Detail) string {
	var words []string
	for _, figure := range []*int64{d.Anonymous, d.File, d.Shared, d.Kernel, d.KernelStacks, d.PageTables, d.Slab, d.Sockets, d.Swap, d.OOMKills} {
		if figure == nil {
			words = append(words, "-")
		} else {
			words = append(words, fmt.Sprint(*figure))
		}
	}
	return strings.Join(words, " ")
}

func TestRealPodDetailOnCgroup1(t *testing.T) {
	n := newRealNode(t)
	if n.hierarchy.Unified {
		t.Skip("SKIP: this machine has cgroup v2; TestCgroup2PodDetail is for it")
	}
	if d := detailed(t, n, "memory.limit_in_bytes"); d.KernelStacks != nil || d.PageTables != nil || d.Slab != nil {
		t.Errorf("v1 tells %+v", d)
	}
}

// TestCgroup2PodDetail: the kernel's memory for a pod is reported by its parts.
func TestCgroup2PodDetail(t *testing.T) {
	n := newNode2(t, 400*mib)
	d := detailed(t, n, "memory.max")
	// The stacks of the process's threads belong to its parent: they existed before it
	// joined.
	if at(d.PageTables) < 90*mib/512 || at(d.Slab) < 4<<10 || at(d.PageTables)+at(d.Slab) > at(d.Kernel) {
		t.Errorf("v2 tells %+v: %s", d, text(d))
	}
}

// group1 and group2 are the files, with figures, of a pod's cgroup and of one of its
// containers.
func group1(usage, kills int) files {
	f := files{"memory.stat": fmt.Sprintf("cache 1\nrss 2\ntotal_cache 50\ntotal_rss %d\ntotal_shmem 30\ntotal_swap 7\n", usage)}
	f["memory.oom_control"] = fmt.Sprintf("oom_kill_disable 0\nunder_oom 0\noom_kill %d\n", kills)
	for module, used := range map[string]int{"memory.": 999, "memory.kmem.": 40, "memory.kmem.tcp.": 4} {
		f[module+"usage_in_bytes"] = fmt.Sprintln(used)
		for _, other := range []string{"max_usage_in_bytes", "failcnt", "limit_in_bytes"} {
			f[module+other] = "1\n"
		}
	}
	return f
}

func group2() files {
	return files{
		"memory.stat":         "anon 100\nfile 50\nkernel 41\nkernel_stack 16\npagetables 12\nsock 4\nshmem 30\nslab 13\n",
		"memory.current":      "999\n",
		"memory.swap.current": "7\n",
		"memory.events":       "low 0\noom 3\noom_kill 5\n",
	}
}

// plantDetail plants a node with a pod and returns its tree and the directory of the pod.
func plantDetail(t *testing.T, v version) (*Tree, string) {
	t.Helper()
	const pod = "kubepods/burstable/pod" + burstableUID
	node := v.node()
	groups := map[string]files{pod: group2()}
	if v != v2 {
		groups = map[string]files{pod: group1(100, 9), pod + "/one": group1(1, 2), pod + "/other": group1(1, 3)}
	}
	for group, f := range groups {
		for name, content := range f {
			node[filepath.Join(v.memoryDir(group), name)] = content
		}
	}
	mount := node.Plant(t)
	return mustOpen(t, mount, "kubepods"), filepath.Join(mount, v.memoryDir(pod))
}

// Each figure is that of its file, below the mount that the tree was opened with.
func TestDetail(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		version version
		want    string
	}{
		{v1, "100 50 30 40 - - - 4 7 5"},
		{hybrid, "100 50 30 40 - - - 4 7 5"},
		{v2, "100 50 30 41 16 12 13 4 7 5"},
	} {
		tree, _ := plantDetail(t, test.version)
		d, err := tree.Detail(burstableUID)
		if err != nil || text(d) != test.want {
			t.Errorf("%+v: %+v, %v; want %s", test.version, d, err, test.want)
		}
	}
}

// A figure that is zero, missing or not a number is unknown, and never another number; a
// group without its memory.stat has no detail at all. The library accepts a truncated
// number, but the kernel truncates none. Kills on v1 are a lower bound.
func TestDetailThatCannotBeRead(t *testing.T) {
	t.Parallel()
	for _, v := range []version{v1, v2} {
		spoiled := map[version][]string{
			v1: {"memory.stat", "one/memory.oom_control", "memory.kmem.usage_in_bytes", "memory.kmem.tcp.usage_in_bytes"},
			v2: {"memory.stat", "memory.swap.current", "memory.events"},
		}[v]
		whole := strings.Fields(map[version]string{v1: "100 50 30 40 - - - 4 7 5", v2: "100 50 30 41 16 12 13 4 7 5"}[v])
		for _, name := range spoiled {
			for kind, spoil := range spoils() {
				if strings.HasPrefix(kind, "cut off") {
					continue
				}
				tree, dir := plantDetail(t, v)
				spoil(t, filepath.Join(dir, name))
				d, err := tree.Detail(burstableUID)
				if err != nil {
					if d != nil {
						t.Errorf("%s %s: both %+v and %v", name, kind, d, err)
					}
					continue
				}
				for i, figure := range strings.Fields(text(d)) {
					if figure != whole[i] && figure != "-" && name != "one/memory.oom_control" {
						t.Errorf("%s %s: figure %d is %s, not %s", name, kind, i, figure, whole[i])
					}
				}
			}
		}
		tree, dir := plantDetail(t, v)
		kernelfiletest.Remove(t, filepath.Join(dir, "memory.stat"))
		if d, err := tree.Detail(burstableUID); err == nil || d != nil {
			t.Errorf("without memory.stat: %+v, %v", d, err)
		}
	}
}

// A kernel without kernel memory accounting has no files for it.
func TestDetailWithoutKernelMemory(t *testing.T) {
	t.Parallel()
	tree, dir := plantDetail(t, v1)
	for _, module := range []string{"kmem", "kmem.tcp"} {
		for _, name := range []string{"usage_in_bytes", "max_usage_in_bytes", "failcnt", "limit_in_bytes"} {
			kernelfiletest.Remove(t, filepath.Join(dir, "memory."+module+"."+name))
		}
	}
	if d, err := tree.Detail(burstableUID); err != nil || text(d) != "100 50 30 - - - - - 7 5" {
		t.Errorf("%+v, %v", d, err)
	}
}
