package usage

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/internal/filetree"
	"github.com/evictd/evictd/internal/testing/filetreetest"
	"github.com/evictd/evictd/internal/testing/kernelfiletest"
)

// overlay mounts a container's root as a runtime does, and returns st_dev of it.
func (h *fakeHost) overlay(upper, lower, point string) (device uint64, err error) {
	work := filepath.Dir(upper) + "/work"
	for _, dir := range []string{upper, work, lower, point} {
		err = errors.Join(err, os.MkdirAll(h.at(dir), 0o755))
	}
	options := "lowerdir=" + h.at(lower) + ",upperdir=" + h.at(upper) + ",workdir=" + h.at(work)
	var root unix.Stat_t
	if err = errors.Join(err, unix.Mount("overlay", h.at(point), "overlay", 0, options)); err == nil {
		err = unix.Stat(h.at(point), &root)
	}
	return root.Dev, err
}

// TestNodeDiskDeletedFilesOfARoot: a file that a container wrote into its root and deleted
// is on the filesystem of the layer, whatever device the root has. A file of the image does
// not count to the pod.
func TestNodeDiskDeletedFilesOfARoot(t *testing.T) {
	t.Parallel()
	h := newHostOfWeb(t)
	const point = "/run/k8s.io/" + containerA + "/rootfs"
	var unmounted error
	filetreetest.InMountNamespace(t, func() {
		kernelfiletest.Put(t, h.at(snapshots+"/1/fs/image-file"), strings.Repeat("x", kib32))
		device, err := h.overlay(snapshots+"/9/fs", snapshots+"/1/fs", point)
		if errors.Is(err, unix.ENODEV) {
			unmounted = err
			return
		}
		if err != nil {
			t.Error(err)
			return
		}
		h.file(point + "/gone")
		gone, err := os.Open(h.at(point + "/gone"))
		image, fault := os.Open(h.at(point + "/image-file"))
		if err = errors.Join(err, fault, os.Remove(h.at(point+"/gone")), os.Remove(h.at(point+"/image-file"))); err != nil {
			t.Error(err)
			return
		}
		h.opened(900, holding(t, gone, image))
		h.mounts.Reset()
		h.mounted(int(unix.Minor(device)), point, snapshots+"/9/fs")
		d, err := OpenNodeDisk(h.inNamespace(t), 1)
		must(t, err)
		use := measure(t, d, web())
		if want := exactly(t, h, 1, 0); use.NodeFS[Deleted] != want || use.Reason != "" {
			t.Errorf("deleted %+v, reason %q; want one file: %+v", use.NodeFS[Deleted], use.Reason, want)
		}
		// Where the layer is unknown, its deleted files are unknown too.
		h.mounts.Reset()
		h.mounted(int(unix.Minor(device)), point, snapshots+"/nowhere/fs")
		d.last = nil
		if use := measure(t, d, web()); use.NodeFS[Deleted] != (FSUse{}) || use.NodeFS[Layers].BytesKnown {
			t.Errorf("deleted %+v, layers %+v; want them unknown", use.NodeFS[Deleted], use.NodeFS[Layers])
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
	h := newHostOfWeb(t)
	h.opened(900, "self")
	d := h.open(t, 1)
	defer d.pool.Rest()
	m := &podDisk{hostView: &hostView{}, disk: d, roots: map[uint64]where{1: onBoth}, gone: map[inode]bool{}}
	ctx, cancel := context.WithCancel(t.Context())
	err := d.pool.Do(ctx, "open files", func(turn *filetree.Turn) error {
		if err := m.readOpen(turn, 900); err != nil {
			t.Error(err)
		}
		cancel()
		return m.readOpen(turn, 900)
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("without time: %v", err)
	}
	err = nil
	for i := range uint64(maxDeleted + 1) {
		if err != nil {
			t.Fatalf("the file %d: %v", i, err)
		}
		err = m.addDeleted(&unix.Statx_t{Dev_minor: 1, Ino: i, Blocks: 8})
	}
	if deleted := m.use.NodeFS[Deleted]; err == nil || deleted.Inodes != maxDeleted {
		t.Errorf("%d files, %v; want %d and a fault", deleted.Inodes, err, maxDeleted)
	}
}

// TestNodeDiskHeldDescriptors: a pod with a file that blocks evictd hides only its own
// deleted files; with two such pods none are looked for, and all else is known.
func TestNodeDiskHeldDescriptors(t *testing.T) {
	t.Parallel()
	h := newHostOfWeb(t)
	h.opened(900, "self")
	d := h.open(t, 1)
	check := func() {
		t.Helper()
		if use := measure(t, d, web()); use.NodeFS[Deleted].BytesKnown || use.NodeFS.Sum() != exactly(t, h, 6, 7) || use.Reason != "" {
			t.Errorf("deleted %+v, on nodefs %+v, reason %q", use.NodeFS[Deleted], use.NodeFS.Sum(), use.Reason)
		}
	}
	for _, name := range []string{"deleted files of uid-web", "deleted files of uid-other"} {
		hold(t, d.pool, name)
		check()
	}
}

// TestNodeDiskListsOnlySoMany: the number of a pod's emptyDirs that are listed is limited.
func TestNodeDiskListsOnlySoMany(t *testing.T) {
	t.Parallel()
	h := newFakeHost(t)
	base := "/var/lib/kubelet/pods/uid-web/" + emptyDirs
	h.file(base + "/file")
	for i := range maxEntries - 1 {
		must(t, os.Link(h.at(base+"/file"), h.at(filepath.Join(base, strconv.Itoa(i)))))
	}
	if use := measure(t, h.open(t, 1), web()); use.NodeFS[Volumes].BytesKnown || !strings.Contains(use.Reason, "10000 entries or more") {
		t.Errorf("volumes %+v, reason %q; want that there may be more", use.NodeFS[Volumes], use.Reason)
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
		h.file(snapshots + "/7/fs/tmp/written")
		for i, point := range tc.points {
			if point == "" {
				h.mounted(60+i, "/run/containerd/x/"+containerA+"/rootfs", snapshots+"/7/fs")
				continue
			}
			h.mounted(60+i, point, gone)
		}
		_, err := OpenNodeDisk(h.root, 1)
		if want := gone + ": no such file or directory; mount it below " + h.root + " at the same path"; (err != nil) != (tc.want != "") ||
			err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
	}
}
