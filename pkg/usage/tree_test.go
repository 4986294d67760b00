package usage

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

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
	cgroupfs := []string{"pod" + guaranteedUID, "burstable/pod" + burstableUID, "besteffort/pod" + bestEffortUID, "burstable/pod" + staticUID}
	systemd := func(name string) []string {
		pod := func(class, uid string) string {
			return name + class + "-pod" + strings.ReplaceAll(uid, "-", "_") + ".slice"
		}
		return []string{
			pod("", guaranteedUID), name + "-burstable.slice/" + pod("-burstable", burstableUID),
			name + "-besteffort.slice/" + pod("-besteffort", bestEffortUID), name + "-burstable.slice/" + pod("-burstable", staticUID),
		}
	}
	return map[string][]string{
		"/kubepods": cgroupfs, "/other/kubepods": cgroupfs,
		"/kubepods.slice": systemd("kubepods"), "/kubelet.slice/kubelet-kubepods.slice": systemd("kubelet-kubepods"),
	}
}

// fourPods returns the figures of the four pods, in the order of layouts.
func fourPods() []figures {
	return []figures{
		{Usage: 1000, Anonymous: 500, Shared: 50, File: 40, InactiveFile: 300, Tasks: 3, Kernel: 90, SlabReclaimable: 30},
		{Usage: 2000, Anonymous: 600, Shared: 60, InactiveFile: 400, Tasks: 4, Kernel: 80, SlabReclaimable: 80},
		{Usage: 3000, Anonymous: 700, Shared: 70, InactiveFile: 500, Tasks: 5, Kernel: 70, SlabReclaimable: 71},
		{Usage: 4000, Anonymous: 800, Shared: 80, InactiveFile: 4001, Tasks: 6},
	}
}

func mustOpen(tb testing.TB, mount, kubepods string) *Tree {
	tb.Helper()
	tree, err := Open(mount, kubepods)
	must(tb, err)
	tb.Cleanup(func() { _ = tree.Close() })
	return tree
}

// sorted sorts figures of pods by UID, which comes first in them.
func sorted[T Pod | Stall](all []T) []T {
	slices.SortFunc(all, func(a, b T) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	return all
}

func TestCollect(t *testing.T) {
	t.Parallel()
	for name, version := range kernelfiletest.Versions() {
		for kubepods, groups := range layouts() {
			t.Run(name+kubepods, func(t *testing.T) {
				t.Parallel()
				node := version.Mount()
				for i, group := range groups {
					version.Add(node, filepath.Join(kubepods, group), fourPods()[i])
					// Containers count to their pod and must not be mistaken for pods.
					version.Add(node, filepath.Join(kubepods, group, "pod0123"), figures{Usage: 9, Anonymous: 9})
				}
				// Groups beside the pods', and one that is named like a pod but without a
				// UID.
				version.Add(node, filepath.Join(kubepods, "system.slice"), figures{Usage: 9, Anonymous: 9})
				version.Add(node, filepath.Join(kubepods, "pod"), figures{Usage: 9, Anonymous: 9})
				mount := node.Plant(t)

				found, err := FindKubepods(mount, "")
				if err != nil || found != kubepods {
					t.Fatalf("FindKubepods is %q, %v; want %q", found, err, kubepods)
				}
				tree := mustOpen(t, mount, found)
				want := []Pod{
					{UID: guaranteedUID, Used: 1000, WorkingSet: 700, Anonymous: 500, Shared: 50, Kernel: 60, Tasks: 3},
					{UID: burstableUID, Used: 2000, WorkingSet: 1600, Anonymous: 600, Shared: 60, Tasks: 4},
					{UID: bestEffortUID, Used: 3000, WorkingSet: 2500, Anonymous: 700, Shared: 70, Tasks: 5},
					{UID: staticUID, Used: 4000, WorkingSet: 0, Anonymous: 800, Shared: 80, Tasks: 6},
				}
				for i := range want {
					if want[i].TasksKnown = version != v1NoPIDs; !want[i].TasksKnown {
						want[i].Tasks = 0
					}
					if want[i].KernelKnown = version == v2; !want[i].KernelKnown {
						want[i].Kernel = 0
					}
				}
				if reclaim := want[0].Reclaim(); reclaim != 550+want[0].Kernel {
					t.Errorf("the first pod's end frees %d", reclaim)
				}
				var pods []Pod
				for range 3 {
					pods, err = tree.Collect(pods, nil)
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

// TestStandIn: what is charged to a pod is read before another reading stands in for the rest, which is not read then.
func TestStandIn(t *testing.T) {
	t.Parallel()
	for name, version := range kernelfiletest.Versions() {
		tree := mustOpen(t, twoPods(version).Plant(t), "/kubepods")
		whole, err := tree.Collect(nil, nil)
		must(t, err)
		want := slices.Clone(sorted(whole))
		for i := range want {
			if want[i].UID == guaranteedUID {
				want[i] = Pod{UID: guaranteedUID, Used: want[i].Used, Earlier: true, Anonymous: 42}
			}
		}
		got, err := tree.Collect(nil, func(uid string, _ int64) (Pod, bool) {
			return Pod{UID: uid, Used: -1, Anonymous: 42}, uid == guaranteedUID
		})
		if diff := gocmp.Diff(want, sorted(got)); err != nil || diff != "" {
			t.Errorf("%s: %v, pods (-want +got):\n%s", name, err, diff)
		}
	}
}

// The groups of the two pods of twoPods. Tests spoil or remove the first.
const (
	spoiltPod = "/kubepods/pod" + guaranteedUID
	otherPod  = "/kubepods/burstable/pod" + burstableUID
)

// twoPods are on a node with all files that are read of them. One met its limits, and one of its containers did.
func twoPods(v version) files {
	node := v.Mount()
	add := func(group string, f figures, limit string, failures, charges int) {
		f.Limit = limit
		v.Add(node, group, f)
		dir := v.Dir("memory", group)
		if v != v2 {
			node[dir+"/memory.failcnt"] = fmt.Sprintln(failures)
			node[dir+"/memory.oom_control"] = "oom_kill_disable 0\nunder_oom 0\noom_kill 9\n"
			node[dir+"/memory.stat"] += fmt.Sprintf("pgpgin %d\ntotal_pgpgin 999\n", charges)
			return
		}
		node[dir+"/memory.events"] = fmt.Sprintf("low 9\nhigh %d\nmax %d\noom 9\noom_kill 5\n", failures, charges)
		node[dir+"/memory.pressure"] = fmt.Sprintf("some avg10=13.22 avg60=8.96 avg300=2.76 total=%d\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=9\n", 1000*failures)
		node[dir+"/memory.swap.current"] = "7\n"
	}
	const unlimited, limit = "9223372036854771712", "62914560"
	add(spoiltPod, fourPods()[0], unlimited, 3, 5)
	add(spoiltPod+"/at-its-limit", figures{Usage: 62300000}, limit, 20, 100)
	add(spoiltPod+"/below-its-limit", figures{Usage: 50000000}, limit, 0, 7)
	add(otherPod, fourPods()[1], unlimited, 0, 0)
	return node
}

// removePod ends the pod that is for that.
func removePod(tb testing.TB, mount string, v version) {
	tb.Helper()
	for _, controller := range []string{"memory", "pids"} {
		kernelfiletest.Remove(tb, filepath.Join(mount, v.Dir(controller, spoiltPod)))
	}
}

// TestUnknownIsNeverZero spoils, one by one, each file that a pod is read from: that pod is left out and named, or all
// of it is as it is without the fault, and the other one is still returned. A file that is missing from a group that is
// there is a fault, and not a removed pod; without the pids controller the tasks are unknown, and not zero, and so is
// how long tasks waited without PSI. A figure of the detail is missing then, and none is another number.
func TestUnknownIsNeverZero(t *testing.T) {
	t.Parallel()
	breakages := spoils()
	breakages["missing"] = kernelfiletest.Remove
	for name, version := range kernelfiletest.Versions() {
		whole := mustOpen(t, twoPods(version).Plant(t), "/kubepods")
		pods, err := whole.Collect(nil, nil)
		stalls, fault := whole.Stalls()
		pods, stalls = sorted(pods), sorted(stalls)
		detail, unread := whole.Detail(guaranteedUID)
		must(t, err, fault, unread)
		for file := range twoPods(version) {
			base, container := filepath.Base(file), strings.Contains(file, "-its-limit/")
			for breakage, spoil := range breakages {
				missing := breakage == "missing"
				if !strings.Contains(file, spoiltPod) || container && (missing || base != "memory.failcnt") { // one that is missing has ended
					continue
				}
				t.Run(name+"/"+file+"/"+breakage, func(t *testing.T) {
					t.Parallel()
					mount := twoPods(version).Plant(t)
					path := filepath.Join(mount, file)
					spoil(t, path)
					tree := mustOpen(t, mount, "/kubepods")
					pod, stall := pods[0], stalls[0]
					if missing && base == "pids.current" {
						pod.Tasks, pod.TasksKnown = 0, false
					}
					if missing && base == "memory.pressure" {
						stall.Waited, stall.WaitedKnown = 0, false
					}
					for range 2 {
						got, err := tree.Collect(nil, nil)
						allOrTheOther(t, path, sorted(got), []Pod{pod, pods[1]}, err, pod != pods[0])
					}
					got, err := tree.Stalls()
					allOrTheOther(t, path, sorted(got), []Stall{stall, stalls[1]}, err, stall != stalls[0])
					if breakage == "cut off in a number" { // accepted by the library
						return
					}
					d, err := tree.Detail(guaranteedUID)
					if (err == nil) != (d != nil) || err == nil && missing && base == "memory.stat" {
						t.Errorf("the detail is %+v, %v", d, err)
					}
					for figure, n := range d {
						if n != detail[figure] {
							t.Errorf("%s is %d, not %d", figure, n, detail[figure])
						}
					}
				})
			}
		}
	}
}

// allOrTheOther requires the figures of both pods, or those of the second and a fault that names a file, unless it must
// be none.
func allOrTheOther[T comparable](t *testing.T, path string, got, want []T, err error, all bool) {
	t.Helper()
	faults := faultsOf(err)
	if !all && len(faults) == 1 && strings.Contains(faults[0].Error(), path) {
		want, err = want[1:], nil
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %+v, %v; want %+v", got, err, want)
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

// TestPodsComeAndGo: ended pods are left out, without an error, and new pods are read, also
// one with the UID of an ended one.
func TestPodsComeAndGo(t *testing.T) {
	t.Parallel()
	for name, version := range kernelfiletest.Versions() {
		mount := twoPods(version).Plant(t)
		tree := mustOpen(t, mount, "/kubepods")
		present := func(when string, want ...string) {
			t.Helper()
			pods, err := tree.Collect(nil, nil)
			var got []string
			for _, pod := range sorted(pods) {
				got = append(got, pod.UID)
			}
			if err != nil || !slices.Equal(got, want) {
				t.Errorf("%s, %s: pods are %q, %v, want %q", name, when, got, err, want)
			}
		}
		present("at first", guaranteedUID, burstableUID)
		removePod(t, mount, version)
		if stalls, err := tree.Stalls(); err != nil || len(stalls) != 1 {
			t.Errorf("%s: after an end: %+v, %v", name, stalls, err)
		}
		present("after an end", burstableUID)
		if present, err := tree.Present(guaranteedUID); present || err != nil {
			t.Errorf("%s: after an end, Present is %t, %v", name, present, err)
		}
		again := files{}
		version.Add(again, spoiltPod, figures{Usage: 77, Anonymous: 7})
		for file, content := range again {
			kernelfiletest.Put(t, filepath.Join(mount, file), content)
		}
		present("after a start", guaranteedUID, burstableUID)
		kernelfiletest.Remove(t, filepath.Join(mount, version.Dir("memory", "/kubepods/burstable")))
		present("without a class", guaranteedUID)
	}
}

// TestFaultMorePodsThanFiles: all pods are read, and no more files stay open than are for them. They stay open
// again once there are as few pods.
func TestFaultMorePodsThanFiles(t *testing.T) {
	t.Parallel()
	for name, version := range kernelfiletest.Versions() {
		mount := twoPods(version).Plant(t)
		tree := mustOpen(t, mount, "/kubepods")
		tree.most = 1
		for i, want := range []int{2, 2, 1} {
			if i == 2 {
				removePod(t, mount, version)
			}
			pods, err := tree.Collect(nil, nil)
			if err != nil || len(pods) != want {
				t.Errorf("%s: %d pods, %v; want %d", name, len(pods), err, want)
			}
			if open := len(kernelfiletest.OpenBelow(t, mount)); i == 2 && open == 0 || open > podFileCount {
				t.Errorf("%s: %d files are open, want those of one pod", name, open)
			}
		}
	}
}

func TestKubepodsThatCannotBeRead(t *testing.T) {
	t.Parallel()
	none := t.TempDir()
	_, unfound := FindKubepods(none, "")
	_, unopened := Open(none, "/kubepods")
	for _, err := range []error{unfound, unopened} {
		if err == nil || !strings.Contains(err.Error(), "no cgroup accounts for memory below "+none) {
			t.Errorf("without cgroups: %v", err)
		}
	}
	mount := twoPods(v1).Plant(t)
	tree := mustOpen(t, mount, "/kubepods")
	root := filepath.Join(mount, "memory/kubepods")
	for name, spoil := range map[string]func(){
		"gone":        func() { kernelfiletest.Remove(t, root) },
		"not a group": func() { kernelfiletest.Put(t, root, "x") },
	} {
		spoil()
		pods, err := tree.Collect(make([]Pod, 3), nil)
		stalls, fault := tree.Stalls()
		present, unknown := tree.Present(guaranteedUID)
		_, unopened := Open(mount, "/kubepods")
		if len(pods)+len(stalls) != 0 || len(faultsOf(err)) > 0 || present {
			t.Errorf("%s: %+v, %+v, %v, present %t", name, pods, stalls, err, present)
		}
		for i, err := range []error{err, fault, unknown, unopened} {
			if err == nil || !strings.Contains(err.Error(), root) {
				t.Errorf("%s: error %d is %v", name, i, err)
			}
		}
	}
}

// TestFaultPodsOfAListingThatFailedAreRead: when a directory cannot be listed, its known pods are read
// through their open files, the other classes are read, and the error says that others may be missing.
func TestFaultPodsOfAListingThatFailedAreRead(t *testing.T) {
	t.Parallel()
	mount := twoPods(v1).Plant(t)
	tree := mustOpen(t, mount, "/kubepods")
	want, err := tree.Collect(nil, nil)
	must(t, err)
	tree.classes[1].path = strings.Repeat("x", 4096) // ENAMETOOLONG, where a node under pressure has EMFILE
	got, err := tree.Collect(nil, nil)
	if diff := gocmp.Diff(sorted(want), sorted(got)); diff != "" {
		t.Errorf("pods (-want +got):\n%s", diff)
	}
	if unread := (*UnreadError)(nil); !errors.As(err, &unread) || !unread.ListingFailed || len(unread.Pods) != 0 || len(unread.Faults) != 1 {
		t.Errorf("the error is %v; want one that says so", err)
	}
	kernelfiletest.Put(t, filepath.Join(mount, "memory/kubepods/burstable"), "x")
	pods, err := mustOpen(t, mount, "/kubepods").Collect(nil, nil)
	if len(pods) != 1 || len(faultsOf(err)) != 1 || !strings.Contains(err.Error(), "listing the pods") {
		t.Errorf("a class that is a file: %+v, %v", pods, err)
	}
}

func TestPresentRefusesPaths(t *testing.T) {
	t.Parallel()
	mount := twoPods(v1).Plant(t)
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
	unread := &UnreadError{Faults: []error{kernelfile.ErrEmpty, kernelfile.ErrOverflow, kernelfile.ErrEmpty}}
	if want := "the file is empty (and 2 more that could not be read)"; unread.Error() != want || !errors.Is(unread, kernelfile.ErrOverflow) {
		t.Errorf("got %q; want %q, with the second fault", unread, want)
	}
}

// TestOutdatedFigures: a memory.stat that does not add up to the usage is older, and those of the containers
// count, which are of now. Where they say no more, as of kernel memory on version 1, the pod's own counts. Where one
// cannot be read the pod is not known, neither by the old figures. A group that was just made, or whose processes have
// ended, uses nothing: that is what its end reclaims, and not a measure of the pod's usage.
func TestOutdatedFigures(t *testing.T) {
	t.Parallel()
	const group, unread = "/kubepods/pod" + guaranteedUID, -1
	for name, test := range map[string]struct {
		usage, pod int64 // MiB
		containers []int64
		want       int64
	}{
		"the pod grew":                    {430, 60, []int64{400, 28}, 428},
		"the pod freed":                   {60, 430, []int64{58}, 58},
		"a container ended":               {430, 430, []int64{30}, 430},
		"kernel memory that is not known": {430, 60, []int64{40, 20}, 60},
		"a few MiB, which charges leave":  {70, 60, []int64{69}, 60},
		"its containers have ended":       {60, 430, nil, 430},
		"nothing is used":                 {0, 430, nil, 0},
		"a container cannot be read":      {1024, 0, []int64{unread}, unread},
	} {
		for version, v := range kernelfiletest.Versions() {
			node := v.Mount()
			v.Add(node, group, figures{Usage: test.usage * mib, Anonymous: test.pod * mib, Shared: mib})
			for i, anonymous := range test.containers {
				v.Add(node, fmt.Sprintf("%s/%d", group, i), figures{Anonymous: anonymous * mib}) // a negative one is at fault
			}
			pods, err := mustOpen(t, node.Plant(t), "/kubepods").Collect(nil, nil)
			if test.want == unread {
				if faults := faultsOf(err); len(pods) != 0 || len(faults) != 1 || !strings.Contains(faults[0].Error(), "/0/memory.stat") {
					t.Errorf("%s, %s: collected %+v, %v", name, version, pods, err)
				}
				continue
			}
			if err != nil || len(pods) != 1 || pods[0].Anonymous != test.want*mib ||
				pods[0].Unused != (test.usage == 0) || pods[0].Unused && pods[0].Shared > 0 {
				t.Errorf("%s, %s: collected %+v, %v; want one pod with %d MiB", name, version, pods, err, test.want)
			}
		}
	}
}

// TestCollectAllocatesNothingPerPod: the work for 110 pods must not allocate more
// than that for 10.
func TestCollectAllocatesNothingPerPod(t *testing.T) {
	allocations := func(version version, spoil func(stat string) string, count int) float64 {
		node := version.Mount()
		for i := range count {
			group := fmt.Sprintf("/kubepods/burstable/pod%08d", i)
			version.Add(node, group, fourPods()[0])
			file := filepath.Join(version.Dir("memory", group), "memory.stat")
			node[file] = spoil(node[file])
		}
		tree := mustOpen(t, node.Plant(t), "/kubepods")
		kernelfiletest.Put(t, filepath.Join(tree.hierarchy.Memory, "kubepods/besteffort"), directory)
		var pods []Pod
		return testing.AllocsPerRun(20, func() {
			var err error
			if pods, err = tree.Collect(pods, nil); err != nil || len(pods) != count {
				t.Fatalf("%d pods, %v", len(pods), err)
			}
		})
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
