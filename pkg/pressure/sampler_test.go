package pressure

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/internal/kernelfile"
	"github.com/evictd/evictd/internal/testing/kernelfiletest"
)

// fakeSystem is a node with one filesystem of 100 GiB, in the host's PID
// namespace.
func fakeSystem() system {
	return system{
		statfs: func(string) (filesystem, error) {
			return filesystem{device: 1, available: 40 * gib, capacity: 100 * gib, inodesFree: 5000, inodes: 9000}, nil
		},
		release:      func() (string, error) { return "6.18.0", nil },
		pidNamespace: func() (string, error) { return initialPIDNamespace, nil },
	}
}

// mustOpen opens a node and closes it at the end of the test.
func mustOpen(tb testing.TB, options Options, sys system) *Node {
	tb.Helper()
	if options.FilesystemWait == 0 { // shorter than a busy machine's pauses
		options.FilesystemWait = time.Minute
	}
	n, err := open(options, sys)
	if err != nil {
		tb.Fatalf("opening the node: %v", err)
	}
	tb.Cleanup(func() { _ = n.Close() })
	return n
}

func known(available, capacity int64) Observation {
	return Observation{State: Known, Available: available, Capacity: capacity}
}

// onDevice is a reading of the filesystem with that device number.
func onDevice(device uint64, o Observation) Observation {
	o.Device = device
	return o
}

func TestSample(t *testing.T) {
	t.Parallel()
	everyAbsent := func(s Sample) Sample {
		for i := range s.Observations {
			if s.Observations[i] == (Observation{}) {
				s.Observations[i] = absent(ErrUnasked)
			}
		}
		s.Time = moment(0)
		return s
	}
	only := func(observations [SignalCount]Observation) Sample {
		return everyAbsent(Sample{Observations: observations})
	}
	disk, inodes := onDevice(1, known(40*gib, 100*gib)), onDevice(1, known(5000, 9000))
	all := func(memory Observation, allocatable int64) Sample {
		return only([SignalCount]Observation{
			MemoryAvailable:            memory,
			KubeletMemoryAvailable:     known(20*gib-6*mib, 24*gib-6*mib),
			AllocatableMemoryAvailable: known(allocatable, 16*gib),
			MemoryStall:                known(2_000_000, 2_000_000),
			NodeFSAvailable:            disk, NodeFSInodesFree: inodes,
			ImageFSAvailable: disk, ImageFSInodesFree: inodes,
			ContainerFSAvailable: disk, ContainerFSInodesFree: inodes,
			PIDAvailable: known(32768-1020, 32768),
		})
	}
	noMemAvailable := v1Tree()
	noMemAvailable["proc/meminfo"] = "MemTotal: 25165824 kB\nHugetlb: 6144 kB\n"
	byKernel, byWorkingSet := known(22*gib, 24*gib-6*mib), known(20*gib-6*mib, 24*gib-6*mib)
	for name, tc := range map[string]struct {
		node    tree
		options Options
		want    Sample
	}{
		"v1, kernel":          {v1Tree(), Options{Kubepods: "/kubepods", Signals: Signals()}, all(byKernel, 13*gib+8)},
		"v1, working set":     {v1Tree(), Options{Kubepods: "kubepods", MemoryAvailable: WorkingSet, Signals: Signals()}, all(byWorkingSet, 13*gib)},
		"hybrid, working set": {hybridTree(), Options{Kubepods: "/kubepods", MemoryAvailable: WorkingSet, Signals: Signals()}, all(byWorkingSet, 13*gib)},
		"v2, kernel":          {v2Tree(), Options{Kubepods: "/kubepods.slice", Signals: Signals()}, all(byKernel, 13*gib+5)},
		"v2, working set":     {v2Tree(), Options{Kubepods: "kubepods.slice", MemoryAvailable: WorkingSet, Signals: Signals()}, all(byWorkingSet, 13*gib)},
		"only what is requested needs to be there, and the kernel may have no stalls": {
			tree{"proc/meminfo": meminfoText},
			Options{Signals: []Signal{MemoryAvailable, MemoryStall}},
			only([SignalCount]Observation{MemoryAvailable: byKernel, MemoryStall: absent(unix.ENOENT)}),
		},
		"without MemAvailable the kubelet's measure is known": {
			noMemAvailable, Options{Signals: []Signal{KubeletMemoryAvailable}}, only([SignalCount]Observation{KubeletMemoryAvailable: byWorkingSet}),
		},
		"nothing is requested": {tree{}, Options{}, everyAbsent(Sample{})},
		"no kubepods":          {tree{}, Options{Signals: []Signal{AllocatableMemoryAvailable}}, only([SignalCount]Observation{AllocatableMemoryAvailable: absent(errNoKubepods)})},
	} {
		tc.options.HostRoot = tc.node.Plant(t)
		n := mustOpen(t, tc.options, fakeSystem())
		for range 2 { // opened files are read again
			if diff := cmp.Diff(tc.want, n.Sample(moment(0)), cmpopts.EquateErrors()); diff != "" {
				t.Errorf("%s: sample (-want +got):\n%s", name, diff)
			}
		}
	}
}

// TestUnknownIsNeverZero spoils, one by one, each file that a signal is read from: the
// signal is Unknown until the file is back, its error names the file, and no other signal is affected. The same
// fault makes Open fail, which leaves no file open: a configuration that cannot be applied is retried repeatedly.
func TestUnknownIsNeverZero(t *testing.T) {
	t.Parallel()
	const v1, v2 = "sys/fs/cgroup/memory", "sys/fs/cgroup"
	cgroup := func(dir string, names ...string) (files []string) {
		for _, name := range names {
			files = append(files, dir+"/memory."+name)
		}
		return append(files, "proc/meminfo")
	}
	root1, root2 := cgroup(v1, "usage_in_bytes", "stat"), cgroup(v2, "stat")
	for _, source := range []struct {
		node    func() tree
		options Options
		signal  Signal
		files   []string
	}{
		{procTree, Options{}, MemoryAvailable, []string{"proc/meminfo"}},
		{procTree, Options{}, PIDAvailable, []string{"proc/loadavg", "proc/sys/kernel/pid_max", "proc/sys/kernel/threads-max"}},
		{procTree, Options{}, MemoryStall, []string{"proc/pressure/memory"}},
		{v1Tree, Options{MemoryAvailable: WorkingSet}, MemoryAvailable, root1},
		{v2Tree, Options{MemoryAvailable: WorkingSet}, MemoryAvailable, root2},
		{v1Tree, Options{}, KubeletMemoryAvailable, root1},
		{v2Tree, Options{}, KubeletMemoryAvailable, root2},
		{v1Tree, Options{Kubepods: "/kubepods"}, AllocatableMemoryAvailable, cgroup(v1+"/kubepods", "limit_in_bytes", "stat", "usage_in_bytes", "kmem.usage_in_bytes")},
		{v1Tree, Options{Kubepods: "/kubepods", MemoryAvailable: WorkingSet}, AllocatableMemoryAvailable, cgroup(v1+"/kubepods", "usage_in_bytes", "limit_in_bytes", "stat")},
		{v2Tree, Options{Kubepods: "/kubepods.slice"}, AllocatableMemoryAvailable, cgroup(v2+"/kubepods.slice", "current", "max", "stat")},
	} {
		for _, file := range source.files {
			for name, spoil := range spoils() {
				t.Run(source.signal.String()+"/"+file+"/"+name, func(t *testing.T) {
					t.Parallel()
					options, node, other := source.options, source.node(), NodeFSAvailable
					if source.signal == KubeletMemoryAvailable && file != "proc/meminfo" {
						other = MemoryAvailable
					}
					options.HostRoot, options.Signals = node.Plant(t), []Signal{source.signal, other}
					n, path := mustOpen(t, options, fakeSystem()), filepath.Join(options.HostRoot, file)
					spoil(t, path)
					_ = n.Close() // unlike a kernel file, a regular file outlives its name
					s := n.Sample(moment(0))
					seen := s.Of(source.signal)
					if seen.State != Unknown || seen.Available != 0 || seen.Capacity != 0 || seen.Err == nil || !strings.Contains(seen.Err.Error(), filepath.Base(file)) {
						t.Errorf("%s is %+v; want it unknown, and %s named", source.signal, seen, file)
					}
					if s.Of(other).State != Known {
						t.Errorf("%s is %+v; want it known", other, s.Of(other))
					}
					_ = n.Close()
					again, err := open(options, fakeSystem())
					if noPSI := source.signal == MemoryStall && name == "missing"; (err == nil) != noPSI {
						t.Errorf("opened a node whose %s is spoilt: %v", file, err)
					}
					if err != nil && len(kernelfiletest.OpenBelow(t, options.HostRoot)) > 0 {
						t.Errorf("%q stay open", kernelfiletest.OpenBelow(t, options.HostRoot))
					}
					if err == nil {
						_ = again.Close()
					}
					kernelfiletest.Put(t, path, node[file])
					s = n.Sample(moment(time.Second))
					if seen := s.Of(source.signal); seen.State != Known {
						t.Errorf("when the file is back, %s is %+v", source.signal, seen)
					}
				})
			}
		}
	}
}

// TestHugePagesAreNotAvailable: by neither definition are huge pages available or part of the
// capacity, of which percentages are: on a node with 24 GiB, a working set of 4 GiB and a
// MemAvailable of 1 GiB.
func TestHugePagesAreNotAvailable(t *testing.T) {
	t.Parallel()
	const size = "HugePages_Total:       3\nHugepagesize:       2048 kB\n"
	for name, tc := range map[string]struct {
		lines   string      // what follows on MemTotal and MemAvailable
		want    Observation // by the working set
		kernel  int64       // the capacity by the kernel's definition
		wantErr string
	}{
		"a kernel without huge pages": {lines: "", want: known(20*gib, 24*gib), kernel: 24 * gib},
		"none reserved":               {lines: size + "Hugetlb: 0 kB\n", want: known(20*gib, 24*gib), kernel: 24 * gib},
		"of all sizes, not of one":    {lines: size + "Hugetlb: 8388608 kB\n", want: known(12*gib, 16*gib), kernel: 16 * gib},
		"all but the working set":     {lines: size + "Hugetlb: 20971520 kB\n", want: known(0, 4*gib), kernel: 4 * gib},
		"more than that is never less than 0, and the capacity is the working set": {
			lines: size + "Hugetlb: 23068672 kB\n", want: known(0, 4*gib), kernel: 2 * gib,
		},
		"all there is":                 {lines: "Hugetlb: 25165824 kB\n", wantErr: "leave nothing"},
		"no number":                    {lines: "Hugetlb: many kB\n", wantErr: "no number"},
		"pages instead of kB":          {lines: "Hugetlb: 3\n", wantErr: "instead of kB"},
		"cut off where it may stand":   {lines: "Hugetlb: 83", wantErr: "no end"},
		"cut off before it may follow": {lines: "HugePages_To", wantErr: "no end"},
	} {
		for version, node := range map[string]tree{"v1": v1Tree(), "v2": v2Tree()} {
			node["proc/meminfo"] = "MemTotal: 25165824 kB\nMemAvailable: 1048576 kB\n" + tc.lines
			options := Options{Signals: []Signal{MemoryAvailable, KubeletMemoryAvailable}, HostRoot: node.Plant(t)}
			if tc.wantErr != "" {
				_, err := open(options, fakeSystem())
				kernelfiletest.CheckNumber(t, 0, err, 0, tc.wantErr)
				continue
			}
			for definition, want := range map[MemoryDefinition]Observation{Kernel: known(gib, tc.kernel), WorkingSet: tc.want} {
				options.MemoryAvailable = definition
				s := mustOpen(t, options, fakeSystem()).Sample(moment(0))
				if s.Of(MemoryAvailable) != want || s.Of(KubeletMemoryAvailable) != tc.want {
					t.Errorf("%s, %s, by %s: got %+v, want %+v; the kubelet's %+v, want %+v",
						name, version, definition, s.Of(MemoryAvailable), want, s.Of(KubeletMemoryAvailable), tc.want)
				}
			}
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	noKubelet := procTree()
	delete(noKubelet, "var/lib/kubelet")
	wants := func(signals ...Signal) Options { return Options{Signals: signals} }
	memory := wants(MemoryAvailable)
	for name, tc := range map[string]struct {
		node    tree
		options Options
		want    []string
	}{
		"no total":                             {tree{"proc/meminfo": "MemTotal: 0 kB\nMemAvailable: 0 kB\n"}, memory, []string{"memory.available", "proc/meminfo"}},
		"more than there is":                   {tree{"proc/meminfo": "MemTotal: 5 kB\nMemAvailable: 6 kB\n"}, memory, []string{"memory.available", "proc/meminfo", "above MemTotal"}},
		"no MemAvailable":                      {tree{"proc/meminfo": "MemTotal: 5 kB\nMemFree: 4 kB\n"}, memory, []string{"memory.available", "proc/meminfo"}},
		"no cgroups":                           {procTree(), Options{MemoryAvailable: WorkingSet, Signals: []Signal{MemoryAvailable}}, []string{"memory.available", "no cgroup accounts for memory"}},
		"no cgroups, by the kubelet's measure": {procTree(), wants(Signals()...), []string{"kubeletMemory.available", "no cgroup accounts for memory"}},
		"no such kubepods":                     {v1Tree(), Options{Kubepods: "/other", Signals: []Signal{AllocatableMemoryAvailable}}, []string{"allocatableMemory.available", "memory/other"}},
		"no kubelet":                           {noKubelet, wants(NodeFSAvailable), []string{"nodefs", "var/lib/kubelet"}},
	} {
		tc.options.HostRoot = tc.node.Plant(t)
		_, err := open(tc.options, fakeSystem())
		if err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v; want an error of one line", name, err)
			continue
		}
		for _, want := range tc.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: the error %q does not say %q", name, err, want)
			}
		}
	}
}

// TestThisMachine reads the machine that the tests run on.
func TestThisMachine(t *testing.T) {
	t.Parallel()
	fine := func(options Options, signals ...Signal) {
		t.Helper()
		options.Signals = signals
		s := mustOpen(t, options, kernel()).Sample(moment(0))
		for _, signal := range signals {
			if seen := s.Of(signal); seen.State != Known || seen.Available <= 0 || seen.Available > seen.Capacity {
				t.Errorf("root %q, %s: %s is %+v", options.HostRoot, options.MemoryAvailable, signal, seen)
			}
		}
	}
	for _, root := range []string{"", "/"} {
		fine(Options{HostRoot: root}, MemoryAvailable)
		if _, err := kernelfile.HierarchyOf(cgroupRoot); err != nil {
			t.Logf("SKIP: %v", err)
			continue
		}
		fine(Options{HostRoot: root, MemoryAvailable: WorkingSet}, MemoryAvailable, KubeletMemoryAvailable)
	}
	if err := pidMaxVisible(kernel()); err == nil {
		fine(Options{}, PIDAvailable)
	} else if !errors.Is(err, errPIDNamespace) {
		t.Error(err)
	}
	if _, err := os.ReadFile(nodePSI); err == nil {
		fine(Options{}, MemoryStall)
	} else {
		t.Logf("SKIP: %v", err)
	}
	fine(Options{HostRoot: procTree().Plant(t)}, NodeFSAvailable, ImageFSAvailable)
	if _, err := (&Options{}).readCPULists(&bytes.Buffer{}); err != nil {
		t.Error(err)
	}
}

func BenchmarkSampleMemory(b *testing.B) {
	n := mustOpen(b, Options{Signals: []Signal{MemoryAvailable}}, kernel())
	b.ReportAllocs()
	for b.Loop() {
		if s := n.Sample(moment(0)); s.Of(MemoryAvailable).State != Known {
			b.Fatal(s.Of(MemoryAvailable).Err)
		}
	}
}

// TestSampleMemoryAllocatesNothing: it is read every 10 ms on a node in trouble.
func TestSampleMemoryAllocatesNothing(t *testing.T) {
	memory := []Signal{MemoryAvailable, KubeletMemoryAvailable, AllocatableMemoryAvailable, MemoryStall}
	n := mustOpen(t, Options{HostRoot: v2Tree().Plant(t), Kubepods: "/kubepods.slice", Signals: memory}, fakeSystem())
	var s Sample
	if got := testing.AllocsPerRun(100, func() { s = n.Sample(moment(0)) }); got != 0 {
		t.Errorf("a sample allocates %v times", got)
	}
	if seen := s.Of(MemoryAvailable); seen.State != Known {
		t.Errorf("memory.available is %+v", seen)
	}
}
