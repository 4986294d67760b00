package usage

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/internal/filetree"
)

// layers finds the writable layers of containers without calling the runtime.
//
// The runtime mounts each container's root in the node's mount namespace, and the options of
// an overlay name the directory that it writes to. containerd's mount point contains the
// container's id. Where it does not (CRI-O, Docker), a process of the container shows its
// root. That root counts only if the node has it too: a process may have its own mount
// namespace, with any root.
type layers struct {
	proc string // the host's /proc as evictd sees it
	// byID and byDevice are the roots that a runtime has mounted in the node's mount namespace, which are overlays.
	byID     map[string]mount
	byDevice map[uint64]mount
}

// lookers is of how many processes of a container the root is read.
const lookers = 8

// openLayers reads the node's mounts: those of its first process. A container's root is at …/<id>/rootfs
// (containerd: /run/containerd/io.containerd.runtime.v2.task/k8s.io/<id>/rootfs) or at …/merged (CRI-O and
// Docker), with Docker and the images of containerd at …/rootfs/<snapshotter>/<id>; the node's own root may be an overlay, too.
func openLayers(proc string) (*layers, error) {
	l := &layers{proc: proc, byID: map[string]mount{}, byDevice: map[uint64]mount{}}
	err := readMounts(filepath.Join(proc, "1", "mountinfo"), func(m mount) {
		id, name := filepath.Base(filepath.Dir(m.Mountpoint)), filepath.Base(m.Mountpoint)
		if filepath.Base(filepath.Dir(filepath.Dir(m.Mountpoint))) == "rootfs" {
			id, name = name, "rootfs"
		}
		if m.upperDir() != "" && (name == "rootfs" || name == "merged") {
			l.byID[id], l.byDevice[m.device] = m, m
		}
	})
	return l, err
}

// of returns the root of a container that has these processes, whose upper directory is its writable layer.
func (l *layers) of(container string, processes []int) (mount, error) {
	found, known := l.byID[container]
	var err error
	if !known {
		found, err = l.ofProcesses(processes)
	}
	if err == nil && !filepath.IsAbs(found.upperDir()) {
		err = fmt.Errorf("its overlay was mounted with a relative path, %q", found.upperDir())
	}
	if err != nil {
		return mount{}, fmt.Errorf("finding the writable layer of container %.12s: %w", container, err)
	}
	return found, nil
}

func (l *layers) ofProcesses(processes []int) (mount, error) {
	err := errors.New("no process of it was found")
	for _, pid := range processes[:min(len(processes), lookers)] {
		var root mount
		if root, err = l.rootOf(pid); err != nil {
			continue
		}
		found, known := l.byDevice[root.device]
		switch {
		case known:
			return found, nil
		case root.FSType != "overlay":
			err = fmt.Errorf("its root is of type %s, and only overlay says where it writes to", root.FSType)
		case len(l.byDevice) > 0:
			err = errors.New("its processes have a root that the runtime did not mount")
		default: // the runtime mounts in another namespace
			return root, nil
		}
	}
	return mount{}, err
}

// rootOf returns the mount of a process's root.
func (l *layers) rootOf(pid int) (root mount, err error) {
	err = readMounts(filepath.Join(l.proc, strconv.Itoa(pid), "mountinfo"), func(m mount) {
		if m.Mountpoint == "/" {
			root = m // a later one lies on top
		}
	})
	if err == nil && root.Info == nil {
		err = errors.New("its processes are below a directory that is no mount (chroot)")
	}
	return root, err
}

// layerWait is how long a filesystem of layers may take to respond at startup. One that does
// not respond is no reason to reject the others.
const layerWait = time.Second

// checkLayers finds out whether the layers of the containers that the node has can be
// seen from here: where the runtime's directory is not mounted, none can.
//
//nolint:contextcheck,nolintlint // bounded by itself; contextcheck reads this by itself
func (d *NodeDisk) checkLayers(mounts *layers) error {
	ctx, cancel := context.WithTimeout(context.Background(), layerWait)
	defer cancel()
	defer d.pool.Rest()
	err := d.pool.Do(ctx, "the layers", func(*filetree.Turn) (err error) {
		for _, m := range mounts.byDevice {
			dir := m.upperDir()
			if !filepath.IsAbs(dir) {
				continue
			}
			if _, err = d.device(dir); !errors.Is(err, unix.ENOENT) {
				return nil
			}
		}
		return err
	})
	if errors.Is(err, unix.ENOENT) {
		return err
	}
	return nil
}
