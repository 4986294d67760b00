package hostinfo

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/testing/cgrouptest"
	"github.com/evictd/evictd/internal/testing/kernelfiletest"
	"github.com/evictd/evictd/internal/testing/must"
)

const mib = int64(1) << 20

func TestMain(m *testing.M) { cgrouptest.Main(m, "look", look) }

// look says which of some processes are outside the pods, as it is seen in a cgroup namespace whose root is the
// group of this process.
func look(pids []string) (string, error) {
	runtime.LockOSThread() // the namespace is this thread's
	r, said := New("", nil), []string(nil)
	err := unix.Unshare(unix.CLONE_NEWCGROUP)
	for _, pid := range pids {
		n, _ := strconv.Atoi(pid)
		p, fault := r.read(context.Background(), int32(n), 0)
		said, err = append(said, fmt.Sprintf("outside %t %q", p.RSS > 0, p.Unit)), errors.Join(err, fault)
	}
	return strings.Join(said, ", "), err
}

// A pod of the API server, by both cgroup drivers, and a static one.
const (
	podByFS      = "pod3f0c4a52-0d6a-4d26-a1f5-5a2f6b8d9c01"
	podBySystemd = "kubepods-burstable-pod3f0c4a52_0d6a_4d26_a1f5_5a2f6b8d9c02.slice"
	staticPod    = "kubepods-pod0123456789abcdef0123456789abcdef.slice"
)

// On this machine's own /proc: a process that holds memory is told with its name, unit and size, unless its cgroup is
// a pod's. So it is in a cgroup namespace, which a container usually has on cgroup v2, and which shows other paths.
func TestRealProcesses(t *testing.T) {
	const held = 64 // MiB
	groups := cgrouptest.New(t)
	holding := func(group string) int {
		p := groups.Start(groups.Own + group)
		p.Do("anonymous %d", held)
		return p.PID
	}
	out := holding("/host.service")
	inside := []int{holding("/pods/burstable/" + podByFS + "/container"), holding("/pods/" + podBySystemd + "/container"), holding("/pods/" + staticPod + "/sidecar")}
	r := New("", nil)
	p, err := r.read(t.Context(), int32(out), 0)
	if err != nil || p.Unit != "host.service" || p.Name != "hostinfo.test" || p.RSS < held*mib || p.RSS > (held+32)*mib {
		t.Errorf("outside: %+v, %v", p, err)
	}
	for _, pid := range inside {
		if none, fault := r.read(t.Context(), int32(pid), 0); fault != nil || none != (decide.Process{}) {
			t.Errorf("inside: %+v, %v", none, fault)
		}
	}
	said := groups.Start(groups.Own+"/pods/"+staticPod+"/evictd").Do("look %d %d %d %d", out, inside[0], inside[1], inside[2])
	if want := `outside true "host.service"` + strings.Repeat(`, outside false ""`, 3); said != want {
		t.Errorf("in a cgroup namespace it is %s; want %s", said, want)
	}
	largest, err := r.outside(t.Context())
	t.Logf("%+v", largest)
	if err != nil || len(largest) == 0 || len(largest) > 3 {
		t.Fatalf("%+v, %v", largest, err)
	}
	if !slices.IsSortedFunc(largest, func(a, b decide.Process) int { return int(b.RSS - a.RSS) }) {
		t.Errorf("not the largest first: %+v", largest)
	}
	told := false
	for _, p := range largest {
		if p.Unit == "container" || p.RSS <= 0 || p.Name == "" {
			t.Errorf("%+v", p)
		}
		told = told || p.Unit == "host.service"
	}
	if least := largest[len(largest)-1].RSS; !told && least < p.RSS {
		t.Errorf("left out: %+v", p)
	}
}

// On this machine: together what is not free.
func TestRealMemory(t *testing.T) {
	t.Parallel()
	memory := New("", func(err error) { t.Error(err) }).Memory()
	t.Logf("%+v", memory)
	var sum int64
	for _, used := range memory {
		sum += used
	}
	var info unix.Sysinfo_t
	must.Succeed(t, unix.Sysinfo(&info))
	used := int64(info.Totalram-info.Freeram) * int64(info.Unit)
	if off := sum - used; off < -256*mib || off > 256*mib {
		t.Errorf("the parts are %d MiB together; %d MiB are not free", sum/mib, used/mib)
	}
}

const goodMeminfo = `MemTotal:       1000 kB
MemFree:         100 kB
MemAvailable:    400 kB
Buffers:          20 kB
Cached:          300 kB
SwapCached:        0 kB
Active(anon):     90 kB
Inactive(anon):  110 kB
Shmem:            50 kB
Slab:             60 kB
SReclaimable:     40 kB
SUnreclaim:       20 kB
PageTables:       10 kB
Hugetlb:           192 kB
`

// planted is a host with two processes outside the pods, one in them and a kernel thread.
func planted() kernelfiletest.Tree {
	return kernelfiletest.Tree{
		"proc/meminfo":                    goodMeminfo,
		"proc/stat":                       "cpu 1 2 3\nbtime 1700000000\n",
		"proc/uptime":                     "1000.00 900.00\n",
		"proc/1/statm":                    "100 50 10 1 0 1 0\n",
		"proc/1/cgroup":                   "0::/init.scope\n",
		"proc/1/comm":                     "systemd\n",
		"proc/2/statm":                    "0 0 0 0 0 0 0\n",
		"proc/2/cgroup":                   "0::/\n",
		"proc/2/comm":                     "kthreadd\n",
		"proc/30/statm":                   "1000 500 10 1 0 1 0\n",
		"proc/30/cgroup":                  "0::/system.slice/docker-" + strings.Repeat("ab", 32) + ".scope/init.scope\n",
		"proc/30/comm":                    "a\x1b[2J\xffb\n",
		"proc/400/statm":                  "9000 9000 10 1 0 1 0\n",
		"proc/400/cgroup":                 "0::/kubepods.slice/" + staticPod + "/c.scope\n",
		"proc/400/comm":                   "greedy\n",
		"proc/self/cgroup":                "0::/\n",
		"proc/self/this is not a process": "",
	}
}

func TestPlantedProcesses(t *testing.T) {
	t.Parallel()
	page := int64(os.Getpagesize())
	want := []decide.Process{
		{Name: `a\x1b[2J` + "\ufffdb", Unit: ("docker-" + strings.Repeat("ab", 32))[:nameMax-len("...")] + "...", RSS: 500 * page},
		{Name: "systemd", Unit: "init.scope", RSS: 50 * page},
	}
	for name, test := range map[string]struct {
		change func(kernelfiletest.Tree)
		want   []decide.Process
		err    string
	}{
		"as it should be":    {func(kernelfiletest.Tree) {}, want, ""},
		"one has just ended": {func(f kernelfiletest.Tree) { delete(f, "proc/30/cgroup") }, want[1:], ""},
		"one ended before":   {func(f kernelfiletest.Tree) { delete(f, "proc/30/statm") }, want[1:], ""},
		"one cannot be read": {func(f kernelfiletest.Tree) { f["proc/30/statm"] = kernelfiletest.Directory }, nil, "is a directory"},
		"a long name, not as the command line has it": {func(f kernelfiletest.Tree) {
			f["proc/30/comm"] = "unicorn_rails_w\n" // 15 bytes, for which the library looks further
			f["proc/30/status"] = "Name:\tunicorn_rails_w\n"
			f["proc/30/cmdline"] = "unicorn_rails_worker --token=secret\x00"
		}, []decide.Process{{Name: "unicorn_rails_w", Unit: want[0].Unit, RSS: want[0].RSS}, want[1]}, ""},
		"no group is told": {func(f kernelfiletest.Tree) { f["proc/30/cgroup"] = "3:cpu\n" }, nil, "process 30: it has no cgroup"},
		"too few fields":   {func(f kernelfiletest.Tree) { f["proc/30/statm"] = "7" }, nil, "too short"},
		"more than a host can have": {
			func(f kernelfiletest.Tree) { f["proc/30/statm"] = "1 4503599627370495 1 1 1 1 1\n" }, nil, "process 30 has",
		},
		"the root group is the host's, without a namespace": {func(f kernelfiletest.Tree) {
			f["proc/1/cgroup"], f["proc/30/cgroup"] = "5:memory:/\n1:name=systemd:/\n", "5:memory:/kubepods/"+podByFS+"/c\n1:name=systemd:/\n"
			f["proc/self/cgroup"] = f["proc/30/cgroup"]
		}, []decide.Process{{Name: "systemd", RSS: 50 * page}}, ""},
		"only pods": {func(f kernelfiletest.Tree) {
			f["proc/1/cgroup"], f["proc/30/cgroup"] = "0::/\n", "0::/kubepods/"+podByFS+"/c\n"
		}, nil, "of 4 processes none is outside the pods"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			files := planted()
			test.change(files)
			got, err := New(files.Plant(t), nil).outside(t.Context())
			if !slices.Equal(got, test.want) || (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
				t.Errorf("got %+v, %v; want %+v, %q", got, err, test.want, test.err)
			}
		})
	}
	if got, err := New(t.TempDir(), nil).outside(t.Context()); err == nil {
		t.Errorf("without /proc: %+v", got)
	}
}

func TestPlantedMemory(t *testing.T) {
	t.Parallel()
	got := New(planted().Plant(t), func(err error) { t.Error(err) }).Memory()
	want := decide.Breakdown{
		"Anonymous": 150 << 10, "Shared": 50 << 10, "PageCache": 250 << 10, "Buffers": 20 << 10, "SlabReclaimable": 40 << 10,
		"SlabUnreclaimable": 20 << 10, "PageTables": 10 << 10, "HugePages": 192 << 10, "Other": 168 << 10,
	}
	if !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestSpoiltMeminfo: no fault of /proc/meminfo reads as unused memory.
func TestSpoiltMeminfo(t *testing.T) {
	t.Parallel()
	spoils := kernelfiletest.Spoils()
	spoils["missing"] = kernelfiletest.Remove
	spoils["a pipe"] = func(tb testing.TB, path string) { // which would wait for a writer
		tb.Helper()
		kernelfiletest.Remove(tb, path)
		must.Succeed(tb, unix.Mkfifo(path, 0o600))
	}
	for line := range strings.Lines(goodMeminfo) {
		name, _, _ := strings.Cut(line, ":")
		if !slices.Contains([]string{"MemAvailable", "SwapCached", "Slab", "Hugetlb"}, name) { // which are not asked for, or may be missing
			spoils["without "+name] = kernelfiletest.With(strings.Replace(goodMeminfo, line, "", 1))
		}
	}
	spoils["more huge pages than memory"] = kernelfiletest.With(strings.Replace(goodMeminfo, "Hugetlb:           192", "Hugetlb: 288230376151711745", 1))
	spoils["another unit"] = kernelfiletest.With(strings.Replace(goodMeminfo, "192 kB", "192 MB", 1))
	spoils["more free than there is"] = kernelfiletest.With(strings.Replace(goodMeminfo, "MemFree:         100", "MemFree: 2000", 1))
	spoils["an end in the middle"] = kernelfiletest.With(goodMeminfo[:strings.Index(goodMeminfo, "SUnreclaim")])
	for name, spoil := range spoils {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := planted().Plant(t)
			spoil(t, filepath.Join(root, "proc/meminfo"))
			var faults []error
			if got := New(root, func(err error) { faults = append(faults, err) }).Memory(); got != nil || len(faults) != 1 {
				t.Errorf("it reads as %v, with the faults %v", got, faults)
			}
		})
	}
}

// TestUnits: the unit of each process, and "pod" for those in pods.
func TestUnits(t *testing.T) {
	t.Parallel()
	for content, want := range map[string]string{
		"0::/kubepods.slice/kubepods-burstable.slice/" + podBySystemd + "/cri-containerd-1.scope": "pod",
		"0::/kubelet/kubepods/besteffort/" + podByFS + "/1":                                       "pod",
		"0::/../../" + staticPod + "/cri-containerd-1.scope":                                      "pod",
		"0::/../../../besteffort/" + podByFS + "/1":                                               "pod",
		"9:cpu:/\n4:memory:/kubepods/" + podByFS + "/1\n1:name=systemd:/init.scope":               "pod",
		"0::/":                                                  "",
		"0::/../cri-containerd-2.scope":                         "pod", // another container of its pod
		"0::/../../../kubelet.service":                          "kubelet.service",
		"0::/../../../..":                                       "",
		"0::/init.scope":                                        "init.scope",
		"0::/kubelet.slice/kubelet.service":                     "kubelet.service",
		"0::/machine.slice/libpod-0123abcd.scope":               "libpod-0123abcd.scope",
		"5:memory:/\n1:name=systemd:/system.slice/x.service":    "x.service", // without accounting of memory
		"0::/user.slice/u.slice/session-3.scope":                "session-3.scope",
		"0::/user.slice/user@1.service/app.slice/foo.service":   "user@1.service",
		"0::/docker/0123":                                       "0123",
		"0::/lxc.payload.c1/.lxc":                               ".lxc",
		"0::/../../system.slice/x.service (deleted)":            "x.service",
		"5:memory:/user\n1:name=systemd:/a/x.service (deleted)": "x.service",
		"0::/a\x1bb":                                            `a\x1bb`,
	} {
		unit, inPod, err := unitOf(content + "\n")
		if inPod {
			unit = "pod"
		}
		if unit != want || err != nil {
			t.Errorf("%q: %q, %v; want %q", content, unit, err, want)
		}
	}
}
