package usage

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/internal/kernelfile"
	"github.com/evictd/evictd/internal/testing/cgrouptest"
)

const cgroupMount = cgrouptest.Mount

func TestMain(m *testing.M) { cgrouptest.Main(m, "", nil) }

// realNode is a kubepods cgroup of this machine below a group of the test.
type realNode struct {
	*cgrouptest.Groups

	kubepods string
}

// newRealNode makes a kubepods cgroup, or skips the test where that is not allowed.
func newRealNode(tb testing.TB) *realNode {
	tb.Helper()
	n := &realNode{Groups: cgrouptest.New(tb, "memory", "pids")}
	n.kubepods = n.Own + "/kubepods"
	for _, class := range []string{"", "/burstable", "/besteffort"} {
		n.Make(n.kubepods + class)
	}
	return n
}

// TestRealPods compares the kernel's accounting with what processes in the containers of pods of every class, named by
// either of the kubelet's drivers, were told to use. Tasks in groups that a container has made below its own belong to
// the pod, with all their threads. Page cache is neither anonymous nor shared.
func TestRealPods(t *testing.T) {
	const shared, cache = 32, 128 // MiB, in each pod and in the first
	sizes := []int64{64, 16, 32, 48}
	// The kernel adds the counts of each CPU in batches (MEMCG_CHARGE_BATCH, 64 pages), so a figure may lack the most
	// recent ones.
	const batches = mib
	const more, slack = (podSlack - batches) / 2, (podSlack + batches) / 2
	for kubepods, groups := range layouts() {
		t.Run(strings.TrimPrefix(kubepods, "/"), func(t *testing.T) {
			n := &realNode{Groups: cgrouptest.New(t, "memory", "pids")}
			n.kubepods = n.Own + kubepods
			first := path.Join(n.kubepods, groups[0])
			n.Make(first + "/container")
			tree := mustOpen(t, cgroupMount, n.kubepods)
			// The kernel may charge a group for the group below it.
			if pods, err := tree.Collect(nil, nil); err != nil || len(pods) > 1 || len(pods) == 1 && pods[0].Anonymous+pods[0].Shared+pods[0].Tasks > 0 {
				t.Errorf("without a process: %+v, %v", pods, err)
			}
			nested := n.Start(first + "/other/inner/deeper")
			processes := make([]*cgrouptest.Process, len(groups))
			for i, group := range groups {
				processes[i] = n.Start(path.Join(n.kubepods, group, "container"))
				processes[i].Do("anonymous %d", sizes[i])
				processes[i].Do("shared %d", shared)
			}
			processes[0].Do("cache %d %s", cache, filepath.Join(disk(t), "file"))
			if n.Unified { // the mount is that of the test's group
				if found, err := FindKubepods(filepath.Join(cgroupMount, n.Own), ""); err != nil || found != kubepods {
					t.Errorf("found %q, %v; want %q", found, err, kubepods)
				}
			}
			for i, uid := range []string{guaranteedUID, burstableUID, bestEffortUID, staticUID} {
				running, cached := processes[i:i+1], int64(0)
				if i == 0 {
					running, cached = append(running[:1:1], nested), cache*mib
				}
				few := threads(t, running)
				// What is charged while the kernel adds up the counts of the CPUs may be missing from a pod's sum, and not from
				// its container's, for two seconds (mm/memcontrol.c, mem_cgroup_css_rstat_flush and memcg_rstat_updated).
				cgrouptest.Patiently(func() bool {
					content, unread := os.ReadFile(filepath.Join(n.Memory, n.kubepods, groups[i], "memory.stat"))
					sum, err := kernelfile.ParseMemoryStat(content, n.Unified)
					must(t, unread, err)
					return sum.Anonymous >= sizes[i]*mib-batches && sum.PageCache >= shared*mib+cached-batches
				})
				use := podOf(t, tree, uid)
				many := threads(t, running)
				near(t, uid+" anonymous", use.Anonymous, sizes[i]*mib+more, slack)
				near(t, uid+" shared", use.Shared, shared*mib+more, slack)
				if least := use.Anonymous + use.Shared; use.WorkingSet < least || use.WorkingSet > least+cached+podSlack {
					t.Errorf("%s: the working set %d is not about anonymous %d plus shared %d", uid, use.WorkingSet, use.Anonymous, use.Shared)
				}
				if counted := n.PIDs != ""; use.TasksKnown != counted || counted && (use.Tasks < few || use.Tasks > many) {
					t.Errorf("%s: tasks are %d, known %t; want %d to %d", uid, use.Tasks, use.TasksKnown, few, many)
				}
				// One kernel stack is 16 KiB, and the process has several threads.
				if use.KernelKnown != n.Unified || n.Unified && (use.Kernel < 16<<10 || use.Kernel > podSlack) {
					t.Errorf("%s: kernel memory is %d bytes, known %t", uid, use.Kernel, use.KernelKnown)
				}
				d, err := tree.Detail(uid)
				t.Logf("%s: %+v", uid, d)
				near(t, uid+" anonymous in detail", int64(d["anonymous"]), use.Anonymous, podSlack)
				near(t, uid+" file in detail", int64(d["file"]), shared*mib+cached, podSlack)
				// Of version 1 no other figure is known. Stacks of threads that were there before the process joined are not the pod's.
				if shared, slab := int64(d["shared"]), int64(d["slab"]); err != nil || d["oom_kills"] > 0 || !n.Unified && len(d) != 2 ||
					n.Unified && (shared < use.Shared-podSlack || shared > use.Shared+podSlack || slab < 4<<10 || slab > podSlack) {
					t.Errorf("%s: the detail is %+v, %v", uid, d, err)
				}
				if present, err := tree.Present(uid); err != nil || !present {
					t.Errorf("%s: Present is %t, %v", uid, present, err)
				}
			}
			processes[0].End()
			nested.End()
			for _, group := range []string{"/container", "/other/inner/deeper", "/other/inner", "/other", ""} {
				n.Remove(filepath.Join(n.Memory, first, group))
			}
			if pods, err := tree.Collect(nil, nil); err != nil || len(pods) != len(groups)-1 {
				t.Errorf("after the first one's end: %+v, %v", pods, err)
			}
			if d, err := tree.Detail(guaranteedUID); !errors.Is(err, unix.ENOENT) || d != nil {
				t.Errorf("after its end the detail is %+v, %v", d, err)
			}
			if present, err := tree.Present(guaranteedUID); err != nil || present {
				t.Errorf("after its end, Present is %t, %v", present, err)
			}
		})
	}
}

// threads returns how many threads processes have.
func threads(tb testing.TB, processes []*cgrouptest.Process) (count int64) {
	tb.Helper()
	for _, p := range processes {
		tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", p.PID))
		must(tb, err)
		count += int64(len(tasks))
	}
	return count
}

// TestRealPodsComeAndGo makes and removes pods, each with a UID of its own, while they are read: none of
// them is ever a fault, and one that stays is always found.
func TestRealPodsComeAndGo(t *testing.T) {
	n := newRealNode(t)
	n.Start(n.kubepods + "/pod" + guaranteedUID).Do("anonymous 1")
	if n.Unified {
		n.Enable(filepath.Join(cgroupMount, n.kubepods, "burstable")) // as the kubelet does
	}
	tree := mustOpen(t, cgroupMount, n.kubepods)
	churned := make(chan error, 1)
	go func() {
		for i := range 300 {
			for _, root := range n.Roots() {
				dir := filepath.Join(root, n.kubepods, "burstable", fmt.Sprintf("pod%d", i))
				if err := errors.Join(os.Mkdir(dir, 0o755), os.Remove(dir)); err != nil {
					churned <- err
					return
				}
			}
		}
		churned <- nil
	}()
	var pods []Pod
	for rounds := 1; ; rounds++ {
		var err error
		if pods, err = tree.Collect(pods, nil); err != nil {
			t.Errorf("round %d: %v", rounds, err)
		}
		pods = slices.DeleteFunc(pods, func(p Pod) bool { return p.Unused })
		if len(pods) != 1 || pods[0].UID != guaranteedUID {
			t.Errorf("round %d: pods are %+v", rounds, pods)
		}
		select {
		case err := <-churned:
			if err != nil {
				t.Error(err)
			}
			t.Logf("read in %d rounds", rounds)
			return
		default:
		}
	}
}

// BenchmarkCollect110 reads 110 pods of this machine: all of each, and what is charged to it where another reading stands
// in for the rest, as for a pod within its request.
func BenchmarkCollect110(b *testing.B) {
	const count = 110
	n, groups := newRealNode(b), make([]string, count)
	for i := range groups {
		groups[i] = fmt.Sprintf("%s/burstable/pod%08d-aaaa-4bbb-8ccc-%012d", n.kubepods, i, i)
		n.Make(groups[i])
	}
	p := n.Start(groups[0])
	for _, group := range groups {
		n.Move(p, group)
		p.Do("anonymous 1")
	}
	tree := mustOpen(b, cgroupMount, n.kubepods)
	pods, err := tree.Collect(nil, nil) // which opens the files
	must(b, err)
	for name, standIn := range map[string]StandIn{
		"real": nil, "charged": func(string, int64) (Pod, bool) { return Pod{}, true },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if pods, err = tree.Collect(pods, standIn); err != nil || len(pods) != count {
					b.Fatalf("%d pods, %v", len(pods), err)
				}
			}
		})
	}
}
