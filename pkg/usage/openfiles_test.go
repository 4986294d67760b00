package usage

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/internal/filetree"
	"github.com/evictd/evictd/internal/testing/filetreetest"
	"github.com/evictd/evictd/internal/testing/kernelfiletest"
)

// overlay mounts a container's root as a runtime does, and returns st_dev of it.
func (h *fakeHost) overlay(tb testing.TB, upper, lower, point string) (device uint64, err error) {
	tb.Helper()
	work := filepath.Dir(upper) + "/work"
	for _, dir := range []string{upper, work, lower, point} {
		if err = os.MkdirAll(h.at(dir), 0o755); err != nil {
			return 0, err
		}
	}
	options := "lowerdir=" + h.at(lower) + ",upperdir=" + h.at(upper) + ",workdir=" + h.at(work)
	if err = unix.Mount("overlay", h.at(point), "overlay", 0, options); err != nil {
		return 0, fmt.Errorf("mounting an overlay: %w", err)
	}
	var root unix.Stat_t
	err = unix.Stat(h.at(point), &root)
	return root.Dev, err
}

// TestNodeDiskDeletedFilesOfARoot: a file that a container wrote into its root and deleted
// is on the filesystem of the layer, whatever device the root has. A file of the image does
// not count to the pod.
func TestNodeDiskDeletedFilesOfARoot(t *testing.T) {
	t.Parallel()
	h := newFakeHost(t)
	h.pod(t)
	const point = "/run/k8s.io/" + containerA + "/rootfs"
	var unmounted error
	filetreetest.InMountNamespace(t, func() {
		kernelfiletest.Put(t, h.at(snapshots+"/1/fs/image-file"), strings.Repeat("x", kib64))
		device, err := h.overlay(t, snapshots+"/9/fs", snapshots+"/1/fs", point)
		if errors.Is(err, unix.ENODEV) {
			unmounted = err
			return
		}
		if err != nil {
			t.Error(err)
			return
		}
		h.file(t, point+"/gone")
		gone, err := os.Open(h.at(point + "/gone"))
		image, fault := os.Open(h.at(point + "/image-file"))
		if err = errors.Join(err, fault, os.Remove(h.at(point+"/gone")), os.Remove(h.at(point+"/image-file"))); err != nil {
			t.Error(err)
			return
		}
		process := exec.CommandContext(t.Context(), "sleep", "600")
		process.ExtraFiles = []*os.File{gone, image}
		if err = process.Start(); err != nil {
			t.Error(err)
			return
		}
		t.Cleanup(func() { _ = process.Wait() }) // the test's context ends it
		h.process(t, 900, "/kubepods/poduid-web/"+containerA, "")
		h.link(t, "/proc/900/fd", fmt.Sprintf("/proc/%d/fd", process.Process.Pid))
		h.mounts.Reset()
		h.mounted(t, int(unix.Minor(device)), point, snapshots+"/9/fs")
		d := h.open(t, nil)
		use := measureOne(t, d)
		if want := exactly(t, h, 1, 0); use.OnNodeFS.Deleted != want || use.Reason != "" {
			t.Errorf("deleted %+v, reason %q; want one file: %+v", use.OnNodeFS.Deleted, use.Reason, want)
		}
		// Where the layer's filesystem is unknown, its deleted files are unknown too.
		f, err := d.look(t.Context(), []NodePod{web()}) // and no place is counted
		if err != nil {
			t.Error(err)
			return
		}
		if d.lookForDeleted(t.Context(), f); f.pods[0].noDeleted == nil || f.pods[0].deleted.nodeFS.Inodes != 0 {
			t.Errorf("deleted %+v, %v; want it unknown", f.pods[0].deleted.nodeFS, f.pods[0].noDeleted)
		}
	})
	if unmounted != nil {
		t.Skipf("SKIP: this kernel has no overlay: %v", unmounted)
	}
}

// TestNodeDiskManyDescriptors: with too many descriptors a pod's deleted files are unknown,
// but the sums are known.
func TestNodeDiskManyDescriptors(t *testing.T) {
	t.Parallel()
	h := newFakeHost(t)
	h.pod(t)
	h.process(t, 900, "/kubepods/poduid-web/"+containerA, "")
	h.link(t, "/proc/900/fd", "/proc/self/fd")
	everywhere := func(uint64) (where, error) { return onNodeFS, nil }
	d := &deletedFiles{where: everywhere, seen: map[inode]bool{}, target: make([]byte, unix.PathMax), looked: maxDescriptors - 1}
	many := &deletedFiles{where: everywhere, seen: map[inode]bool{}}
	calm := func() error { return nil }
	if err := d.read(calm, h.at("/proc"), 900); err == nil || !strings.Contains(err.Error(), "more than 131072 open ones") {
		t.Errorf("%v, want too many descriptors", err)
	}
	if d.looked = 0; d.read(calm, h.at("/proc"), 900) != nil || d.looked == 0 {
		t.Errorf("looked at %d descriptors, want some", d.looked)
	}
	var err error
	for i := range uint64(maxDeleted + 1) {
		if err != nil {
			t.Fatalf("the file %d: %v", i, err)
		}
		err = many.add(&unix.Statx_t{Ino: i, Blocks: 8})
	}
	if err == nil || many.nodeFS.Inodes != maxDeleted {
		t.Errorf("%d files, %v; want %d and a fault", many.nodeFS.Inodes, err, maxDeleted)
	}
	if err := d.read(func() error { return context.DeadlineExceeded }, h.at("/proc"), 900); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("without time: %v", err)
	}
}

// TestNodeDiskHeldDescriptors: a pod with a file that blocks evictd hides only its own
// deleted files; so do four more such files.
func TestNodeDiskHeldDescriptors(t *testing.T) {
	t.Parallel()
	h := newFakeHost(t)
	h.pod(t)
	h.process(t, 900, "/kubepods/poduid-web/"+containerA, "")
	h.link(t, "/proc/900/fd", "/proc/self/fd")
	d := h.open(t, nil)
	answer := make(chan struct{})
	defer close(answer)
	hold := func(*filetree.Turn) (int, error) { <-answer; return -1, filetree.ErrElsewhere }
	check := func() {
		t.Helper()
		if use := measureOne(t, d); use.OnNodeFS.Deleted.BytesKnown || use.NodeFS != exactly(t, h, 6, 7) || use.Reason != "" {
			t.Errorf("deleted %+v, on nodefs %+v, reason %q", use.OnNodeFS.Deleted, use.NodeFS, use.Reason)
		}
	}
	for i, name := range []string{"uid-web", "b", "c", "d", "e"} {
		if _, err := d.descriptors.Count(t.Context(), []filetree.Tree{{Name: name, Start: hold}}); err != nil {
			t.Fatal(err)
		}
		for !d.descriptors.Holds(name) {
			runtime.Gosched()
		}
		if i == 0 || i == 4 {
			check()
		}
	}
}

// TestNodeDiskListsOnlySoMany: the number of a pod's emptyDirs that are listed is limited.
func TestNodeDiskListsOnlySoMany(t *testing.T) {
	t.Parallel()
	h := newFakeHost(t)
	base := "/var/lib/kubelet/pods/uid-web/" + emptyDirs
	h.file(t, base+"/file")
	for i := range maxEntries - 1 {
		if err := os.Link(h.at(base+"/file"), h.at(filepath.Join(base, strconv.Itoa(i)))); err != nil {
			t.Fatal(err)
		}
	}
	f, err := h.open(t, nil).look(t.Context(), []NodePod{web()})
	if err != nil {
		t.Fatal(err)
	}
	if fault := f.pods[0].faults[volumePart]; fault == nil || !strings.Contains(fault.Error(), "10000 entries or more") || len(f.places) != maxEntries {
		t.Errorf("%d places, %v; want %d, and that there may be more", len(f.places), fault, maxEntries)
	}
}

// TestNodeDiskWithoutLogs: a running pod without logs in the expected directory is unknown;
// one that does not run has none.
func TestNodeDiskWithoutLogs(t *testing.T) {
	t.Parallel()
	h := newFakeHost(t)
	h.pod(t)
	kernelfiletest.Remove(t, h.at("/var/log/pods/shop_web_uid-web"))
	d := h.open(t, nil)
	if use := measureOne(t, d); use.OnNodeFS.Logs.BytesKnown || use.NodeFS.BytesKnown || !strings.Contains(use.Reason, "no logs in /var/log/pods/shop_web_uid-web") {
		t.Errorf("logs %+v, reason %q; want them unknown", use.OnNodeFS.Logs, use.Reason)
	}
	pod := web()
	pod.Containers = nil
	uses, err := d.Measure(t.Context(), measuredAt(), []NodePod{pod})
	if use := uses[pod.UID]; err != nil || !use.OnNodeFS.Logs.BytesKnown || use.Reason != "" {
		t.Errorf("one that does not run: %+v, %v", use, err)
	}
}

// TestOpenNodeDiskLooksForALayer: a runtime directory that is not mounted is detected at
// startup.
func TestOpenNodeDiskLooksForALayer(t *testing.T) {
	t.Parallel()
	const gone = "/var/lib/containers/storage/overlay/8/diff"
	for name, tc := range map[string]struct {
		points []string
		want   string
	}{
		"CRI-O":                    {[]string{"/var/lib/containers/storage/overlay/8/merged"}, gone},
		"containerd":               {[]string{"/run/containerd/x/" + containerB + "/rootfs"}, gone},
		"one of two has just gone": {[]string{"/run/containerd/x/" + containerB + "/rootfs", ""}, ""},
		"the node's own root":      {[]string{"/"}, ""},
		"none":                     {nil, ""},
	} {
		h := newFakeHost(t)
		h.file(t, snapshots+"/7/fs/tmp/written")
		for i, point := range tc.points {
			if point == "" {
				h.mounted(t, 60+i, "/run/containerd/x/"+containerA+"/rootfs", snapshots+"/7/fs")
				continue
			}
			h.mounted(t, 60+i, point, gone)
		}
		d, err := OpenNodeDisk(NodeDiskOptions{HostRoot: h.root})
		if want := gone + ": no such file or directory; mount it below " + h.root + " at the same path"; (err != nil) != (tc.want != "") ||
			err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
		if d != nil {
			_ = d.Close()
		}
	}
}
