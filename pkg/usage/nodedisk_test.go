package usage

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/internal/testing/filetreetest"
	"github.com/evictd/evictd/internal/testing/kernelfiletest"
)

// measuredAt is the time of the tests' measurements.
func measuredAt() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) }

// kib32 is the size of a file whose blocks no filesystem needs another block to list: ext2 lists twelve in
// the inode, and counts another one once it has written a larger file.
const kib32 = 32 << 10

// fakeHost is a directory that looks like a host's root.
type fakeHost struct {
	testing.TB
	root   string
	mounts strings.Builder
}

const (
	containerA = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	containerB = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
	snapshots  = "/var/lib/containerd/io.containerd.snapshotter.v1.overlayfs/snapshots"
)

func newFakeHost(tb testing.TB) *fakeHost {
	tb.Helper()
	h := &fakeHost{TB: tb, root: tb.TempDir()}
	for _, dir := range []string{"/var/lib/kubelet/pods", "/var/log/pods", snapshots, "/proc/1"} {
		kernelfiletest.Put(tb, h.at(dir), directory)
	}
	h.writeMounts()
	return h
}

func (h *fakeHost) at(path string) string { return filepath.Join(h.root, path) }

// file makes a file of 32 KiB.
func (h *fakeHost) file(path string) { kernelfiletest.Put(h, h.at(path), strings.Repeat("x", kib32)) }

func (h *fakeHost) link(path, target string) {
	h.Helper()
	must(h, os.MkdirAll(filepath.Dir(h.at(path)), 0o755), os.Symlink(target, h.at(path)))
}

// mounted adds a container's root to the node's mounts.
func (h *fakeHost) mounted(device int, point, upper string) {
	fmt.Fprintf(&h.mounts, "%d 1 0:%d / %s rw,relatime shared:1 - overlay none rw,lowerdir=%s/1/fs,upperdir=%s,workdir=/w\n",
		100+device, device, point, snapshots, upper)
	h.writeMounts()
}

func (h *fakeHost) writeMounts() {
	kernelfiletest.Put(h, h.at("/proc/1/mountinfo"), "20 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n"+h.mounts.String())
}

// process adds a process of a container, whose root is on a device.
func (h *fakeHost) process(pid int, cgroup, mountinfo string) {
	dir := h.at("/proc/" + strconv.Itoa(pid))
	kernelfiletest.Put(h, dir+"/cgroup", "0::"+cgroup+"\n")
	kernelfiletest.Put(h, dir+"/mountinfo", mountinfo)
}

// opened adds a process of web whose open files are those of another process of this machine.
func (h *fakeHost) opened(pid int, process string) {
	h.process(pid, "/kubepods/poduid-web/"+containerA, "")
	h.link(fmt.Sprintf("/proc/%d/fd", pid), "/proc/"+process+"/fd")
}

// holding starts a process with these open files, which ends with the test, and returns its number.
func holding(t *testing.T, files ...*os.File) string {
	t.Helper()
	process := exec.CommandContext(t.Context(), "sleep", "600")
	process.ExtraFiles = files
	must(t, process.Start())
	t.Cleanup(func() { _ = process.Wait() })
	return strconv.Itoa(process.Process.Pid)
}

func (h *fakeHost) open(tb testing.TB, cores float64) *NodeDisk {
	tb.Helper()
	d, err := OpenNodeDisk(h.root, cores)
	must(tb, err)
	return d
}

// inNamespace returns the host's root for a process with the mounts of the calling thread: the measurement has another
// thread.
func (h *fakeHost) inNamespace(tb testing.TB) string {
	tb.Helper()
	root, err := unix.Open(h.root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	must(tb, err)
	tb.Cleanup(func() { _ = unix.Close(root) })
	return "/proc/self/fd/" + strconv.Itoa(root)
}

// web is a pod with one container.
func web() NodePod {
	return NodePod{UID: "uid-web", Namespace: "shop", Name: "web", Containers: []string{containerA}}
}

// pod creates everything that web has: 1 file in its layer, 2 logs, 3 files in emptyDirs,
// and a process without open files.
func (h *fakeHost) pod() {
	h.mounted(61, "/run/containerd/io.containerd.runtime.v2.task/k8s.io/"+containerA+"/rootfs", snapshots+"/7/fs")
	h.process(800, "/kubepods/poduid-web/"+containerA, "")
	h.file(snapshots + "/7/fs/tmp/written")
	h.file("/var/log/pods/shop_web_uid-web/app/0.log")
	h.file("/var/log/pods/shop_web_uid-web/app/0.log.20260301")
	for _, name := range []string{"cache/a", "cache/dir/b", "scratch/new\nline \xff"} {
		h.file("/var/lib/kubelet/pods/uid-web/volumes/kubernetes.io~empty-dir/" + name)
	}
	// Other kinds of volumes do not count to the pod.
	h.file("/var/lib/kubelet/pods/uid-web/volumes/kubernetes.io~csi/pvc/mount/data")
	h.file("/var/lib/kubelet/pods/uid-web/volumes/kubernetes.io~configmap/settings/x")
}

// newHostOfWeb is a host with web.
func newHostOfWeb(tb testing.TB) *fakeHost {
	tb.Helper()
	h := newFakeHost(tb)
	h.pod()
	return h
}

// exactly is a known figure: files of 32 KiB, and directories.
func exactly(tb testing.TB, h *fakeHost, files, directories int64) FSUse {
	tb.Helper()
	var stat unix.Stat_t
	must(tb, unix.Stat(h.root, &stat))
	return FSUse{
		Bytes: files*kib32 + directories*stat.Blocks*512, BytesKnown: true,
		Inodes: files + directories, InodesKnown: true,
	}
}

// ended is web without a running container.
func ended() NodePod {
	pod := web()
	pod.Containers = nil
	return pod
}

// measure measures one pod alone.
func measure(tb testing.TB, d *NodeDisk, pod NodePod) DiskUse {
	tb.Helper()
	uses, err := d.Measure(tb.Context(), measuredAt(), []NodePod{pod})
	must(tb, err)
	if len(uses) != 1 {
		tb.Errorf("%d pods, want one", len(uses))
	}
	return uses[pod.UID]
}

// TestNodeDiskLayers finds a container's writable layer in each possible way.
func TestNodeDiskLayers(t *testing.T) {
	t.Parallel()
	const (
		containerd = "/run/containerd/io.containerd.runtime.v2.task/k8s.io/" + containerA + "/rootfs"
		merged     = "/var/lib/containers/storage/overlay/1234/merged"
		cgroup     = "/kubepods.slice/kubepods-poduid_web.slice/crio-" + containerA + ".scope/below"
		v1         = "/kubepods/burstable/poduid-web/" + containerA
		nested     = "/../../kubepods-poduid.slice/cri-containerd-" + containerA + ".scope/" + containerB
		here       = snapshots + "/7/fs"
	)
	root := func(device int, kind, options string) string {
		return fmt.Sprintf("5 4 0:5 / /proc rw - proc none rw\n7 6 0:%d / / rw,relatime master:3 - %s src %s\n", device, kind, options)
	}
	overlay := func(device int, upper string) string {
		return root(device, "overlay", "rw,upperdir="+upper+",workdir=/w")
	}
	for name, tc := range map[string]struct {
		point  string   // of the mount in the node's namespace; "" for none
		cgroup string   // of the container's processes
		roots  []string // mountinfo of each
		want   string   // in the reason; "" for one that is found
	}{
		"containerd, by the id in the mount point":                      {containerd, "", nil, ""},
		"CRI-O or Docker, by a process whose root the node has mounted": {merged, cgroup, []string{overlay(61, "/proc/lies")}, ""},
		"cgroup v1": {merged, v1, []string{overlay(61, here)}, ""},
		"a cgroup namespace, and a group that is called like another container": {merged, nested, []string{overlay(61, here)}, ""},
		"the second process, since the first one has made a root of its own":    {merged, cgroup, []string{overlay(62, snapshots+"/small"), overlay(61, here)}, ""},
		"a runtime in a mount namespace of its own":                             {"", cgroup, []string{overlay(61, here)}, ""},
		"a comma and a space in the path":                                       {"", cgroup, []string{overlay(61, snapshots+`/7\054\134\040x/fs`)}, ""},
		"a root that the runtime did not mount":                                 {merged, cgroup, []string{overlay(62, snapshots+"/small")}, "a root that the runtime did not mount"},
		"no process":                                                            {"", "", nil, "no process of it was found"},
		"btrfs":                                                                 {"", cgroup, []string{root(61, "btrfs", "rw,subvolid=300")}, "its root is of type btrfs"},
		"a changed root":                                                        {"", cgroup, []string{"5 4 0:5 / /proc rw - proc none rw\n"}, "chroot"},
		"an unreadable mountinfo":                                               {"", cgroup, []string{"what\n"}, "no mountinfo"},
		"a relative path":                                                       {"", cgroup, []string{overlay(61, "1234/diff")}, "relative path"},
		"not mounted below the host's root": {
			"", cgroup, []string{overlay(61, "/data/containers/7/fs")}, "opening the host's /data/containers/7/fs: no such file or directory; mount it below ",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newFakeHost(t)
			for _, path := range []string{here + "/tmp/written", snapshots + "/7,\\ x/fs/tmp/written", "/var/log/pods/shop_web_uid-web/app/0.log"} {
				h.file(path)
			}
			h.file("/var/lib/kubelet/pods/uid-web/volumes/kubernetes.io~empty-dir/cache/a")
			if tc.point != "" {
				h.mounted(61, tc.point, here)
			}
			for i, mountinfo := range tc.roots {
				h.process(900+i, tc.cgroup, mountinfo)
			}
			use := measure(t, h.open(t, 1), web())
			if layers, want := use.NodeFS[Layers], exactly(t, h, 1, 2); tc.want == "" && (layers != want || use.Reason != "" || !use.NodeFS.Sum().BytesKnown) {
				t.Errorf("layers %+v, reason %q; want %+v", layers, use.Reason, want)
			}
			if tc.want != "" && (use.NodeFS[Layers].BytesKnown || use.NodeFS.Sum().BytesKnown || !strings.Contains(use.Reason, tc.want)) {
				t.Errorf("layers %+v, reason %q; want them unknown, and %q", use.NodeFS[Layers], use.Reason, tc.want)
			}
			if use.NodeFS.Sum().Bytes < kib32 || !use.NodeFS[Volumes].BytesKnown {
				t.Errorf("on nodefs at least %d bytes, volumes %+v; want what is known", use.NodeFS.Sum().Bytes, use.NodeFS[Volumes])
			}
		})
	}
}

// TestNodeDiskLogs: logs are where the kubelet has them, or where its links lead when a
// runtime keeps them elsewhere; no other link is followed.
func TestNodeDiskLogs(t *testing.T) {
	t.Parallel()
	h := newFakeHost(t)
	const dir = "/var/log/pods/shop_web_uid-web/app/"
	const docker = "/var/lib/docker/containers/"
	for _, path := range []string{docker + containerA + "/json.log", docker + containerA + "/json.log.1", docker + containerB + "/secret", "/elsewhere/secret"} {
		h.file(path)
	}
	for i, target := range []string{
		docker + containerA + "/json.log", docker + containerA + "/json.log.1", "/elsewhere/secret", docker + "../../../elsewhere/secret",
		"../../../../lib/docker/containers/" + containerB + "/secret", docker + "x",
	} {
		h.link(dir+strconv.Itoa(i)+".log", target)
	}
	h.link("/var/lib/kubelet/pods/uid-web/volumes/kubernetes.io~empty-dir/out", "/elsewhere")
	use := measure(t, h.open(t, 1), ended())
	want := exactly(t, h, 2, 3)
	for i := range 6 {
		var link unix.Stat_t
		must(t, unix.Lstat(h.at(dir+strconv.Itoa(i)+".log"), &link))
		want.Bytes, want.Inodes = want.Bytes+link.Blocks*512, want.Inodes+1
	}
	if use.NodeFS[Logs] != want {
		t.Errorf("logs %+v, want two files, three directories and six links: %+v", use.NodeFS[Logs], want)
	}
	// The emptyDir that became a link cannot be opened, so its content is unknown.
	if use.NodeFS[Volumes].Bytes != 0 || use.NodeFS[Volumes].BytesKnown {
		t.Errorf("volumes %+v, want nothing known", use.NodeFS[Volumes])
	}
}

// TestNodeDiskDeletedFiles: a file without a name that a process has open counts to the pod,
// once, and only where it is on one of the node's filesystems.
func TestNodeDiskDeletedFiles(t *testing.T) {
	t.Parallel()
	h := newHostOfWeb(t)
	held := func(path string) *os.File {
		h.file(path)
		file, err := os.OpenFile(h.at(path), os.O_RDWR, 0)
		must(t, err)
		t.Cleanup(func() { _ = file.Close() })
		return file
	}
	const volume = "/var/lib/kubelet/pods/uid-web/volumes/kubernetes.io~empty-dir/cache/"
	gone, again, named, linked := held(volume+"gone"), held(volume+"too"), held(volume+"there (deleted)"), held(volume+"linked")
	must(t, os.Remove(gone.Name()), os.Remove(again.Name()),
		os.Link(linked.Name(), h.at(volume+"other name")), os.Remove(linked.Name()))
	memfd, err := unix.MemfdCreate("not on disk", unix.MFD_CLOEXEC)
	must(t, err)
	memory := os.NewFile(uintptr(memfd), "memory")
	t.Cleanup(func() { _ = memory.Close() })
	_, err = memory.WriteString(strings.Repeat("x", kib32))
	must(t, err)
	process := holding(t, gone, again, named, linked, memory, gone)
	h.opened(900, process)
	h.opened(901, process) // two processes with the same files
	use := measure(t, h.open(t, 1), web())
	if want := exactly(t, h, 2, 0); use.NodeFS[Deleted] != want {
		t.Errorf("deleted %+v, want two files: %+v", use.NodeFS[Deleted], want)
	}
	if want := exactly(t, h, 6+2+2, 7); use.NodeFS.Sum() != want { // those of the pod, with another name, and without
		t.Errorf("on nodefs %+v, want %+v", use.NodeFS.Sum(), want)
	}
}

// TestNodeDiskUnknownParts: what is the pod's counts, and no other kind of volume. A running pod has processes. Where none is visible, or one may not be looked into, its
// deleted files are unknown, and the sums are the kubelet's. It has logs in the expected directory, too; where there
// are none its sums are unknown. A pod that does not run has neither open files nor logs.
func TestNodeDiskUnknownParts(t *testing.T) {
	t.Parallel()
	const group, all = "/kubepods/poduid-web/", partCount
	for name, tc := range map[string]struct {
		plant   func(h *fakeHost)
		unknown Part
		reason  string
	}{
		"all of them are seen":     {func(*fakeHost) {}, all, ""},
		"one has ended":            {func(h *fakeHost) { kernelfiletest.Put(h, h.at("/proc/801/stat"), "") }, all, ""},
		"one may not be looked at": {func(h *fakeHost) { kernelfiletest.Put(h, h.at("/proc/801/cgroup/no file"), "") }, Deleted, ""},
		"one may not be looked into": {func(h *fakeHost) {
			h.process(900, group+containerA, "")
			kernelfiletest.Put(h, h.at("/proc/900/fd"), "x")
		}, Deleted, ""},
		"none is seen":           {func(h *fakeHost) { kernelfiletest.Remove(h, h.at("/proc/800")) }, Deleted, ""},
		"the cgroup names no id": {func(h *fakeHost) { h.process(800, group+"app", "") }, Deleted, ""},
		"no logs": {
			func(h *fakeHost) { kernelfiletest.Remove(h, h.at("/var/log/pods/shop_web_uid-web")) }, Logs, "no logs in /var/log/pods/shop_web_uid-web",
		},
	} {
		h := newHostOfWeb(t)
		tc.plant(h)
		d := h.open(t, 1)
		use, noMore := measure(t, d, web()), measure(t, d, ended())
		parts, sum := Parts{exactly(t, h, 1, 2), exactly(t, h, 2, 2), exactly(t, h, 3, 3), exactly(t, h, 0, 0)}, exactly(t, h, 6, 7)
		rest := parts // of a pod that does not run
		rest[Layers] = exactly(t, h, 0, 0)
		if tc.unknown != all {
			parts[tc.unknown] = FSUse{}
		}
		if tc.unknown == Logs {
			rest[Logs], sum = exactly(t, h, 0, 0), FSUse{Bytes: parts.Sum().Bytes, Inodes: 9}
		}
		if use.NodeFS != parts || use.ImageFS != parts || !use.Time.Equal(measuredAt()) || use.NodeFS.Sum() != sum {
			t.Errorf("%s: %+v, in all %+v; want %+v, in all %+v", name, use, use.NodeFS.Sum(), parts, sum)
		}
		if noMore.NodeFS != rest || noMore.ImageFS != rest {
			t.Errorf("%s: a pod that does not run uses %+v; want %+v", name, noMore, rest)
		}
		if (use.Reason != "") != (tc.reason != "") || !strings.Contains(use.Reason, tc.reason) || noMore.Reason != "" {
			t.Errorf("%s: reason %q, of a pod that does not run %q; want %q", name, use.Reason, noMore.Reason, tc.reason)
		}
	}
}

// TestNodeDiskLeavesOutUnknownPods: a pod without a kubelet directory is left out, and one whose name would
// lead to another path has none.
func TestNodeDiskLeavesOutUnknownPods(t *testing.T) {
	t.Parallel()
	h := newHostOfWeb(t)
	h.file("/var/lib/kubelet/pods/x_y/volumes/kubernetes.io~empty-dir/cache/a")
	uses, err := h.open(t, 1).Measure(t.Context(), measuredAt(), []NodePod{
		{UID: "uid-other", Namespace: "shop", Name: "other"},
		{UID: "..", Namespace: "shop", Name: "up"},
		{UID: "../pods/x_y", Namespace: "shop", Name: "there"},
		{UID: "", Namespace: "shop", Name: "none"},
		web(),
	})
	if _, found := uses["uid-web"]; err != nil || !found || len(uses) != 1 {
		t.Errorf("uses %+v, %v; want web alone", uses, err)
	}
}

// TestNodeDiskTwoFilesystems: each figure counts to its filesystem. The images' directory becomes a mount while the
// host is open, and is none again.
func TestNodeDiskTwoFilesystems(t *testing.T) {
	t.Parallel()
	h := newHostOfWeb(t)
	known := FSUse{BytesKnown: true, InodesKnown: true}
	filetreetest.InMountNamespace(t, func() {
		root := h.inNamespace(t)
		d, err := OpenNodeDisk(root, 1)
		must(t, err)
		check := func(when, upper string, want DiskUse) {
			t.Helper()
			if got, err := DedicatedImageFS(root); err != nil || got != (want.ImageFS != Parts{}) {
				t.Errorf("%s: images have one of their own: %t, %v", when, got, err)
			}
			h.mounts.Reset()
			h.mounted(61, "/run/"+containerA+"/rootfs", upper)
			h.file(upper + "/written")
			want.NodeFS[Logs], want.NodeFS[Volumes], want.NodeFS[Deleted], want.Time = exactly(t, h, 2, 2), exactly(t, h, 3, 3), known, measuredAt()
			if want.ImageFS == (Parts{}) {
				want.ImageFS = want.NodeFS
			}
			if diff := gocmp.Diff(want, measure(t, d, web())); diff != "" {
				t.Errorf("%s (-want +got):\n%s", when, diff)
			}
		}
		onNodeFS, none := DiskUse{NodeFS: Parts{exactly(t, h, 1, 1)}}, Parts{known, known, known, known}
		check("one filesystem", "/var/lib/containerd/7/fs", onNodeFS)
		for _, dir := range []string{"/var/lib/containerd", "/other"} {
			if err := errors.Join(os.MkdirAll(h.at(dir), 0o755), unix.Mount("none", h.at(dir), "tmpfs", 0, "size=64m")); err != nil {
				t.Error(err)
				return
			}
		}
		layer := FSUse{Bytes: kib32, Inodes: 2, BytesKnown: true, InodesKnown: true} // in memory a directory has no blocks
		check("a filesystem for images", "/var/lib/containerd/7/fs", DiskUse{NodeFS: Parts{known}, ImageFS: Parts{layer, known, known, known}})
		check("layers on a third filesystem, which does not count", "/other/7/fs", DiskUse{NodeFS: Parts{known}, ImageFS: none})
		split := onNodeFS
		split.ImageFS, split.SplitLayers = none, true
		check("layers beside the kubelet's directory, as with CRI-O", "/var/lib/containers/7/fs", split)
		if err := unix.Unmount(h.at("/var/lib/containerd"), 0); err != nil {
			t.Error(err)
		}
		check("one filesystem again", "/var/lib/containerd/7/fs", onNodeFS)
	})
}

func TestOpenNodeDiskSaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	for _, dir := range []string{"/var/lib/kubelet", "/var/lib/kubelet/pods", "/var/log/pods", "/proc/1"} {
		h := newFakeHost(t)
		kernelfiletest.Remove(t, h.at(dir))
		d, err := OpenNodeDisk(h.root, 1)
		if dedicated, unknown := DedicatedImageFS(h.root); dedicated || (unknown != nil) != (dir == "/var/lib/kubelet") {
			t.Errorf("without %s images have a filesystem of their own: %t, %v", dir, dedicated, unknown)
		}
		if d != nil || !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), "mount it below") {
			t.Errorf("without %s: %v", dir, err)
		}
	}
	if _, err := OpenNodeDisk("/nowhere", 1); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without a host: %v", err)
	}
	for errno, want := range map[error]string{unix.ENOSYS: "Linux 5.6", unix.EACCES: "CAP_DAC_READ_SEARCH"} {
		if err := (&NodeDisk{}).explain(errno); !errors.Is(err, errno) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v is explained as %v", errno, err)
		}
	}
}

func TestParseMounts(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ text, want string }{
		"plain":             {"36 35 98:3 /a /b\\040c rw,noatime master:1 - ext3 /dev/root rw,errors=continue", "98:3 ext3 at /b c with rw,errors=continue"},
		"no optional field": {"36 35 0:61 / / rw - overlay none rw,upperdir=/u", "0:61 overlay at / with rw,upperdir=/u"},
		"two of them":       {"36 35 0:61 / / rw shared:1 master:2 - tmpfs none rw", "0:61 tmpfs at / with rw"},
		"no source":         {"36 35 0:61 / / rw - tmpfs  rw", "0:61 tmpfs at / with rw"},
		"empty line":        {"\n", ""},
		"no dash":           {"36 35 98:3 / / rw ext3 /dev/root rw", ""},
		"too short":         {"36 35 98:3 / - ext3 /dev/root rw", ""},
		"nothing behind":    {"36 35 98:3 / / rw - ", ""},
		"no device":         {"36 35 98 / / rw - ext3 x rw", ""},
		"a device of words": {"36 35 a:b / / rw - ext3 x rw", ""},
		"a minor of words":  {"36 35 0:b / / rw - tmpfs x rw", ""},
		"before a good one": {"36 35 a:b / / rw - ext3 x rw\n36 35 98:3 / / rw - ext3 x rw", ""},
		"a line too long":   {"36 35 0:61 / / rw - overlay x " + strings.Repeat("l", 1<<16), ""},
	} {
		got := ""
		err := parseMounts(strings.NewReader(tc.text), func(m mount) {
			got += fmt.Sprintf("%d:%d %s at %s with %s", unix.Major(m.device), unix.Minor(m.device), m.FSType, m.Mountpoint, m.VFSOptions)
		})
		if got != tc.want || (err == nil) != (tc.want != "") {
			t.Errorf("%s: %q, %v; want %q", name, got, err, tc.want)
		}
	}
	endless := io.MultiReader(strings.NewReader(strings.Repeat("36 35 98:3 / / rw - ext3 x rw\n", mountinfoMax/30+1)))
	if err := parseMounts(endless, func(mount) {}); err == nil || !strings.Contains(err.Error(), "longer than") {
		t.Errorf("an endless one: %v", err)
	}
}

func FuzzParseMounts(f *testing.F) {
	f.Add("36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue\n")
	f.Add("7 6 0:61 / / rw - overlay none rw,lowerdir=/l\\054x,upperdir=/u\\040v,workdir=/w\n")
	f.Fuzz(func(t *testing.T, text string) {
		_ = parseMounts(strings.NewReader(text), func(m mount) {
			if m.device == 0 || strings.ContainsRune(m.upperDir(), ',') && !strings.Contains(text, `\`) {
				t.Errorf("%q gives %+v", text, m)
			}
		})
	})
}

func FuzzContainerIn(f *testing.F) {
	f.Add("0::/kubepods.slice/cri-containerd-" + containerA + ".scope\n")
	f.Add("4:memory:/kubepods/pod1/" + containerA + "\n3:cpu:/\n")
	f.Fuzz(func(t *testing.T, text string) {
		if got := containerIn(text, map[string]bool{containerA: true}); got != "" && got != containerA {
			t.Errorf("%q gives %q", text, got)
		}
	})
}
