package usage

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/internal/kernelfile"
	"github.com/evictd/evictd/internal/testing/kernelfiletest"
)

// The UIDs of three pods, one of each class, and of a static pod.
const (
	guaranteedUID = "11111111-aaaa-4bbb-8ccc-000000000001"
	burstableUID  = "22222222-aaaa-4bbb-8ccc-000000000002"
	bestEffortUID = "33333333-aaaa-4bbb-8ccc-000000000003"
	staticUID     = "5f6a9d3f0c1e4b7a8d2c9e8f7a6b5c4d"
)

// layouts are kubepods cgroups with the cgroups of the four pods in them, as the
// kubelet's drivers name them.
func layouts() map[string][]string {
	underscored := func(uid string) string { return strings.ReplaceAll(uid, "-", "_") }
	return map[string][]string{
		"/kubepods": {
			"pod" + guaranteedUID, "burstable/pod" + burstableUID, "besteffort/pod" + bestEffortUID, "burstable/pod" + staticUID,
		},
		"/other/kubepods": {
			"pod" + guaranteedUID, "burstable/pod" + burstableUID, "besteffort/pod" + bestEffortUID, "burstable/pod" + staticUID,
		},
		"/kubepods.slice": {
			"kubepods-pod" + underscored(guaranteedUID) + ".slice",
			"kubepods-burstable.slice/kubepods-burstable-pod" + underscored(burstableUID) + ".slice",
			"kubepods-besteffort.slice/kubepods-besteffort-pod" + underscored(bestEffortUID) + ".slice",
			"kubepods-burstable.slice/kubepods-burstable-pod" + staticUID + ".slice",
		},
		"/kubelet.slice/kubelet-kubepods.slice": {
			"kubelet-kubepods-pod" + underscored(guaranteedUID) + ".slice",
			"kubelet-kubepods-burstable.slice/kubelet-kubepods-burstable-pod" + underscored(burstableUID) + ".slice",
			"kubelet-kubepods-besteffort.slice/kubelet-kubepods-besteffort-pod" + underscored(bestEffortUID) + ".slice",
			"kubelet-kubepods-burstable.slice/kubelet-kubepods-burstable-pod" + staticUID + ".slice",
		},
	}
}

// fourPods returns the figures of the four pods, in the order of layouts.
func fourPods() []figures {
	return []figures{
		{usage: 1000, anonymous: 500, shared: 50, inactiveFile: 300, tasks: 3, kernel: 90, slabReclaimable: 30},
		{usage: 2000, anonymous: 600, shared: 60, inactiveFile: 400, tasks: 4, kernel: 80, slabReclaimable: 80},
		{usage: 3000, anonymous: 700, shared: 70, inactiveFile: 500, tasks: 5, kernel: 70, slabReclaimable: 71},
		{usage: 4000, anonymous: 800, shared: 80, inactiveFile: 4001, tasks: 6},
	}
}

func mustOpen(tb testing.TB, mount, kubepods string) *Tree {
	tb.Helper()
	tree, err := Open(mount, kubepods)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = tree.Close() })
	return tree
}

func sorted(pods []Pod) []Pod {
	slices.SortFunc(pods, func(a, b Pod) int { return cmp.Compare(a.UID, b.UID) })
	return pods
}

func TestCollect(t *testing.T) {
	t.Parallel()
	for name, version := range versions() {
		for kubepods, groups := range layouts() {
			t.Run(name+kubepods, func(t *testing.T) {
				t.Parallel()
				node := version.node()
				for i, group := range groups {
					version.add(node, filepath.Join(kubepods, group), fourPods()[i])
					// Containers count to their pod and must not be mistaken for pods.
					version.add(node, filepath.Join(kubepods, group, "pod0123"), figures{usage: 9, anonymous: 9})
				}
				// Groups beside the pods', and one that is named like a pod but without a
				// UID.
				version.add(node, filepath.Join(kubepods, "system.slice"), figures{usage: 9, anonymous: 9})
				version.add(node, filepath.Join(kubepods, "pod"), figures{usage: 9, anonymous: 9})
				mount := node.Plant(t)

				found, err := FindKubepods(mount, "")
				if err != nil || found != kubepods {
					t.Fatalf("FindKubepods is %q, %v; want %q", found, err, kubepods)
				}
				tree := mustOpen(t, mount, found)
				counts := version != v1NoPIDs
				tasks := func(n int64) int64 {
					if counts {
						return n
					}
					return 0
				}
				tells := version == v2
				kernel := func(n int64) int64 {
					if tells {
						return n
					}
					return 0
				}
				want := []Pod{
					{UID: guaranteedUID, WorkingSet: 700, Anonymous: 500, Shared: 50, Kernel: kernel(60), KernelKnown: tells, Tasks: tasks(3), TasksKnown: counts},
					{UID: burstableUID, WorkingSet: 1600, Anonymous: 600, Shared: 60, KernelKnown: tells, Tasks: tasks(4), TasksKnown: counts},
					{UID: bestEffortUID, WorkingSet: 2500, Anonymous: 700, Shared: 70, KernelKnown: tells, Tasks: tasks(5), TasksKnown: counts},
					{UID: staticUID, WorkingSet: 0, Anonymous: 800, Shared: 80, KernelKnown: tells, Tasks: tasks(6), TasksKnown: counts},
				}
				if reclaim := want[0].Reclaim(); reclaim != 550+kernel(60) {
					t.Errorf("the first pod's end frees %d", reclaim)
				}
				var pods []Pod
				for range 3 {
					pods, err = tree.Collect(pods)
					if diff := gocmp.Diff(want, sorted(pods)); err != nil || diff != "" {
						t.Fatalf("error %v, pods (-want +got):\n%s", err, diff)
					}
				}
				for _, pod := range want {
					if present, err := tree.Present(pod.UID); err != nil || !present {
						t.Errorf("Present(%q) is %t, %v", pod.UID, present, err)
					}
				}
			})
		}
	}
}

// twoPods plants a node with two pods and returns its mount, and the directories of the
// second one.
func twoPods(t *testing.T, v version) (mount, memory, pids string) {
	t.Helper()
	node := v.node()
	v.add(node, "/kubepods/burstable/pod"+burstableUID, fourPods()[1])
	v.add(node, "/kubepods/pod"+guaranteedUID, fourPods()[0])
	mount = node.Plant(t)
	group := "/kubepods/pod" + guaranteedUID
	return mount, filepath.Join(mount, v.memoryDir(group)), filepath.Join(mount, v.pidsDir(group))
}

// TestUnknownIsNeverZero spoils, one by one, each file that a pod is read from: that pod is
// left out and named, and the other one is still returned.
func TestUnknownIsNeverZero(t *testing.T) {
	t.Parallel()
	for name, version := range versions() {
		for _, file := range []string{"memory.stat", version.usageFile(), "pids.current"} {
			if file == "pids.current" && version == v1NoPIDs {
				continue
			}
			for breakage, spoil := range spoils() {
				t.Run(name+"/"+file+"/"+breakage, func(t *testing.T) {
					t.Parallel()
					mount, memory, pids := twoPods(t, version)
					path := filepath.Join(memory, file)
					if file == "pids.current" {
						path = filepath.Join(pids, file)
					}
					spoil(t, path)
					tree := mustOpen(t, mount, "/kubepods")
					for range 2 {
						pods, err := tree.Collect(nil)
						if len(pods) != 1 || pods[0].UID != burstableUID {
							t.Errorf("pods are %+v; want only %s", pods, burstableUID)
						}
						if faults := faultsOf(err); len(faults) != 1 || !strings.Contains(faults[0].Error(), path) {
							t.Fatalf("the error is %v; want one that names %s", err, path)
						}
					}
				})
			}
		}
	}
}

// faultsOf returns the faults of pods that were left out; none for another error.
func faultsOf(err error) []error {
	var unread *UnreadError
	if !errors.As(err, &unread) {
		return nil
	}
	return unread.Faults
}

// TestFileMissingInAGroupThatIsThere: that is a fault and not a removed pod.
func TestFileMissingInAGroupThatIsThere(t *testing.T) {
	t.Parallel()
	for name, version := range versions() {
		for _, file := range []string{"memory.stat", version.usageFile()} {
			mount, memory, _ := twoPods(t, version)
			kernelfiletest.Remove(t, filepath.Join(memory, file))
			pods, err := mustOpen(t, mount, "/kubepods").Collect(nil)
			if len(pods) != 1 || len(faultsOf(err)) != 1 || !errors.Is(err, os.ErrNotExist) {
				t.Errorf("%s without %s: %+v, %v", name, file, pods, err)
			}
		}
	}
}

// TestTasksUnknown: without the pids controller the pod is read, and its tasks are unknown
// and not zero.
func TestTasksUnknown(t *testing.T) {
	t.Parallel()
	for _, version := range []version{v1, hybrid, v2} {
		mount, _, pids := twoPods(t, version)
		kernelfiletest.Remove(t, filepath.Join(pids, "pids.current"))
		pods, err := mustOpen(t, mount, "/kubepods").Collect(nil)
		if err != nil || len(pods) != 2 {
			t.Fatalf("%+v, %v", pods, err)
		}
		for _, pod := range pods {
			if want := pod.UID == burstableUID; pod.TasksKnown != want || want != (pod.Tasks == 4) {
				t.Errorf("pod %s has %d tasks, known %t", pod.UID, pod.Tasks, pod.TasksKnown)
			}
		}
	}
}

// TestPodsComeAndGo: ended pods are left out, without an error, and new pods are read, also
// one with the UID of an ended one.
func TestPodsComeAndGo(t *testing.T) {
	t.Parallel()
	for name, version := range versions() {
		mount, memory, pids := twoPods(t, version)
		tree := mustOpen(t, mount, "/kubepods")
		uids := func() string {
			t.Helper()
			pods, err := tree.Collect(nil)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			var uids []string
			for _, pod := range sorted(pods) {
				uids = append(uids, pod.UID)
			}
			return strings.Join(uids, " ")
		}
		both := guaranteedUID + " " + burstableUID
		if got := uids(); got != both {
			t.Errorf("%s: pods are %q", name, got)
		}
		kernelfiletest.Remove(t, memory)
		kernelfiletest.Remove(t, pids)
		if got := uids(); got != burstableUID {
			t.Errorf("%s: after an end, pods are %q", name, got)
		}
		if present, err := tree.Present(guaranteedUID); present || err != nil {
			t.Errorf("%s: after an end, Present is %t, %v", name, present, err)
		}
		again := files{}
		version.add(again, "/kubepods/pod"+guaranteedUID, figures{usage: 77, anonymous: 7})
		for file, content := range again {
			kernelfiletest.Put(t, filepath.Join(mount, file), content)
		}
		if got := uids(); got != both {
			t.Errorf("%s: after a start, pods are %q", name, got)
		}
		kernelfiletest.Remove(t, filepath.Join(mount, version.memoryDir("/kubepods/burstable")))
		if got := uids(); got != guaranteedUID {
			t.Errorf("%s: without a class, pods are %q", name, got)
		}
	}
}

// TestFaultMorePodsThanFiles: all pods are read, and no more files stay open than are for them.
func TestFaultMorePodsThanFiles(t *testing.T) {
	t.Parallel()
	for name, version := range versions() {
		mount, memory, pids := twoPods(t, version)
		tree := mustOpen(t, mount, "/kubepods")
		tree.most = 1
		for i, want := range []int{2, 2, 1} {
			if i == 2 {
				kernelfiletest.Remove(t, memory)
				kernelfiletest.Remove(t, pids)
			}
			pods, err := tree.Collect(nil)
			if err != nil || len(pods) != want {
				t.Errorf("%s: %d pods, %v; want %d", name, len(pods), err, want)
			}
			if open := openBelow(t, mount); open == 0 || open > podFileCount {
				t.Errorf("%s: %d files are open, want those of one pod", name, open)
			}
		}
	}
}

// TestLimitOfOpenFilesIsRaised: Go does so when a program starts, on some kernels to one less, and evictd
// relies on it.
func TestLimitOfOpenFilesIsRaised(t *testing.T) {
	t.Parallel()
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err != nil || files.Cur+1 < files.Max {
		t.Errorf("%+v, %v", files, err)
	}
}

// openBelow returns how many files below a directory this process has open.
func openBelow(t *testing.T, dir string) (count int) {
	t.Helper()
	links, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range links {
		if target, err := os.Readlink(link); err == nil && strings.HasPrefix(target, dir) {
			count++
		}
	}
	return count
}

// TestVanishesWhileRead: a pod that is removed between the listing and the reading is not a
// fault.
func TestVanishesWhileRead(t *testing.T) {
	t.Parallel()
	mount, memory, _ := twoPods(t, v1)
	tree := mustOpen(t, mount, "/kubepods")
	for _, c := range tree.classes[:2] {
		if err := tree.list(c); err != nil {
			t.Fatal(err)
		}
	}
	kernelfiletest.Remove(t, memory)
	for _, c := range tree.classes[:2] {
		var unread UnreadError
		pods := tree.read(c, nil, &unread)
		if len(unread.Faults) > 0 || (c.dir == "") != (len(pods) == 0) {
			t.Errorf("class %q: %+v, %+v", c.dir, pods, unread)
		}
	}
}

// TestUnusedPodIsFlagged: a group that was just made, or whose processes have ended, uses
// nothing. That is what its end reclaims, and not a measure of the pod's usage. The content
// of memory.stat may be older.
func TestUnusedPodIsFlagged(t *testing.T) {
	t.Parallel()
	for name, version := range versions() {
		node := version.node()
		version.add(node, "/kubepods/pod"+guaranteedUID, figures{anonymous: 4096})
		version.add(node, "/kubepods/pod"+burstableUID, figures{usage: 5, inactiveFile: 5, tasks: 1})
		pods, err := mustOpen(t, node.Plant(t), "/kubepods").Collect(nil)
		if err != nil || len(pods) != 2 {
			t.Fatalf("%s: %+v, %v", name, pods, err)
		}
		if unused := sorted(pods)[0]; unused.UID != guaranteedUID || !unused.Unused || unused.WorkingSet+unused.Reclaim()+unused.Tasks != 0 {
			t.Errorf("%s: %+v, want zeros and the flag", name, unused)
		}
		if pods[1].UID != burstableUID || pods[1].Unused || pods[1].WorkingSet != 0 {
			t.Errorf("%s: %+v, want no flag", name, pods[1])
		}
	}
}

func TestKubepodsThatCannotBeRead(t *testing.T) {
	t.Parallel()
	mount, _, _ := twoPods(t, v1)
	tree := mustOpen(t, mount, "/kubepods")
	root := filepath.Join(mount, "memory/kubepods")
	for name, spoil := range map[string]func(){
		"gone":        func() { kernelfiletest.Remove(t, root) },
		"not a group": func() { kernelfiletest.Put(t, root, "x") },
	} {
		spoil()
		pods, err := tree.Collect(make([]Pod, 3))
		if len(pods) != 0 || err == nil || len(faultsOf(err)) > 0 || !strings.Contains(err.Error(), root) {
			t.Errorf("%s: %d pods, %v", name, len(pods), err)
		}
		if present, err := tree.Present(guaranteedUID); present || err == nil {
			t.Errorf("%s: Present is %t, %v; want an error", name, present, err)
		}
		if _, err := Open(mount, "/kubepods"); err == nil || !strings.Contains(err.Error(), root) {
			t.Errorf("%s: Open is %v", name, err)
		}
	}
}

// TestClassThatCannotBeListed: its pods are unknown, so it is reported, and the other
// classes are read.
func TestClassThatCannotBeListed(t *testing.T) {
	t.Parallel()
	mount, _, _ := twoPods(t, v1)
	kernelfiletest.Put(t, filepath.Join(mount, "memory/kubepods/burstable"), "x")
	pods, err := mustOpen(t, mount, "/kubepods").Collect(nil)
	if len(pods) != 1 || len(faultsOf(err)) != 1 || !strings.Contains(err.Error(), "listing the pods") {
		t.Errorf("%+v, %v", pods, err)
	}
}

// When a directory cannot be listed, its known pods are read through their open files, and
// the error says that others may be missing.
func TestFaultPodsOfAListingThatFailedAreRead(t *testing.T) {
	t.Parallel()
	mount, _, _ := twoPods(t, v1)
	tree := mustOpen(t, mount, "/kubepods")
	want, err := tree.Collect(nil)
	if err != nil {
		t.Fatal(err)
	}
	burstable := tree.classes[slices.IndexFunc(tree.classes, func(c *podClass) bool { return c.dir == "burstable" })]
	burstable.path = strings.Repeat("x", 4096) // ENAMETOOLONG, where a node under pressure has EMFILE
	got, err := tree.Collect(nil)
	if diff := gocmp.Diff(sorted(want), sorted(got)); diff != "" {
		t.Errorf("pods (-want +got):\n%s", diff)
	}
	if unread := (*UnreadError)(nil); !errors.As(err, &unread) || !unread.ListingFailed || len(unread.Pods) != 0 {
		t.Errorf("the error is %v; want one that says so", err)
	}
}

func TestClosedTree(t *testing.T) {
	t.Parallel()
	mount, _, _ := twoPods(t, v1)
	tree := mustOpen(t, mount, "/kubepods")
	_ = tree.Close()
	if pods, err := tree.Collect(nil); len(pods) != 0 || err == nil {
		t.Errorf("%+v, %v", pods, err)
	}
}

func TestPresentRefusesPaths(t *testing.T) {
	t.Parallel()
	mount, _, _ := twoPods(t, v1)
	tree := mustOpen(t, mount, "/kubepods")
	for _, uid := range []string{"", "../burstable", "a/b", "a\x00"} {
		if present, err := tree.Present(uid); present || err == nil {
			t.Errorf("Present(%q) is %t, %v", uid, present, err)
		}
	}
	if present, err := tree.Present("absent"); present || err != nil {
		t.Errorf("Present of a pod that is not there: %t, %v", present, err)
	}
}

func TestUnreadCounts(t *testing.T) {
	t.Parallel()
	unread := UnreadError{Faults: []error{kernelfile.ErrEmpty, kernelfile.ErrOverflow, kernelfile.ErrEmpty}}
	err := unread.orNil()
	if want := "the file is empty (and 2 more that could not be read)"; err.Error() != want {
		t.Errorf("got %q; want %q", err, want)
	}
	if !errors.Is(err, kernelfile.ErrOverflow) {
		t.Error("the second fault is hidden")
	}
}

// TestOutdatedFigures: a memory.stat that does not add up to the usage is older, and those of the containers
// count, which are of now. Where they say no more, as of kernel memory on version 1, the pod's own counts.
func TestOutdatedFigures(t *testing.T) {
	t.Parallel()
	const group, mib = "/kubepods/pod" + guaranteedUID, 1 << 20
	for name, test := range map[string]struct {
		usage, pod int64
		containers []int64
		want       int64
	}{
		"the pod grew":                    {usage: 430, pod: 60, containers: []int64{400, 28}, want: 428},
		"the pod freed":                   {usage: 60, pod: 430, containers: []int64{58}, want: 58},
		"a container ended":               {usage: 430, pod: 430, containers: []int64{30}, want: 430},
		"kernel memory that is not known": {usage: 430, pod: 60, containers: []int64{40, 20}, want: 60},
		"a few MiB, which charges leave":  {usage: 70, pod: 60, containers: []int64{69}, want: 60},
		"its containers have ended":       {usage: 60, pod: 430, want: 430},
	} {
		for version, v := range versions() {
			t.Run(name+", "+version, func(t *testing.T) {
				t.Parallel()
				node := v.node()
				v.add(node, group, figures{usage: test.usage * mib, anonymous: test.pod * mib})
				for i, anonymous := range test.containers {
					v.add(node, fmt.Sprintf("%s/%d", group, i), figures{anonymous: anonymous * mib})
				}
				pods, err := mustOpen(t, node.Plant(t), "/kubepods").Collect(nil)
				if err != nil || len(pods) != 1 || pods[0].Anonymous != test.want*mib {
					t.Errorf("collected %+v, %v; want one pod with %d MiB", pods, err, test.want)
				}
			})
		}
	}
}

// TestOutdatedFiguresOfAContainerThatCannotBeRead: the pod is not known, neither by the old figures.
func TestOutdatedFiguresOfAContainerThatCannotBeRead(t *testing.T) {
	t.Parallel()
	const group = "/kubepods/pod" + guaranteedUID
	node := v2.node()
	v2.add(node, group, figures{usage: 1 << 30})
	node[group+"/1/memory.stat"] = "anon x\n"
	pods, err := mustOpen(t, node.Plant(t), "/kubepods").Collect(nil)
	var unread *UnreadError
	if len(pods) != 0 || !errors.As(err, &unread) || !strings.Contains(err.Error(), "/1/memory.stat") {
		t.Errorf("collected %+v, %v", pods, err)
	}
}

// TestCollectAllocatesNothingPerPod: the work for 110 pods must not allocate more
// than that for 10.
func TestCollectAllocatesNothingPerPod(t *testing.T) {
	allocations := func(version version, spoil func(stat string) string, count int) float64 {
		node := version.node()
		for i := range count {
			group := fmt.Sprintf("/kubepods/burstable/pod%08d", i)
			version.add(node, group, fourPods()[0])
			file := filepath.Join(version.memoryDir(group), "memory.stat")
			node[file] = spoil(node[file])
		}
		tree := mustOpen(t, node.Plant(t), "/kubepods")
		kernelfiletest.Put(t, filepath.Join(tree.hierarchy.Memory, "kubepods/besteffort"), directory)
		var pods []Pod
		got := testing.AllocsPerRun(20, func() {
			var err error
			if pods, err = tree.Collect(pods); err != nil || len(pods) != count {
				t.Fatalf("%d pods, %v", len(pods), err)
			}
		})
		return got
	}
	as := func(stat string) string { return stat }
	old := func(stat string) string { return strings.Replace(stat, "\nkernel ", "\nother ", 1) }
	for name, test := range map[string]struct {
		version version
		spoil   func(string) string
	}{"v1": {v1, as}, "v2": {v2, as}, "v2 before Linux 5.18": {v2, old}} {
		few, many := allocations(test.version, test.spoil, 10), allocations(test.version, test.spoil, 110)
		if many > few {
			t.Errorf("%s: 110 pods allocate %v times, 10 pods %v times", name, many, few)
		}
	}
}

func TestNamesRoundTrip(t *testing.T) {
	t.Parallel()
	for kubepods := range layouts() {
		for _, c := range classesOf(kubepods) {
			for _, uid := range []string{guaranteedUID, staticUID} {
				name := c.name(uid)
				if !c.holds([]byte(name)) || c.uid(name) != uid {
					t.Errorf("%s: %q becomes %q becomes %q", path.Join(kubepods, c.dir), uid, name, c.uid(name))
				}
			}
		}
	}
}
