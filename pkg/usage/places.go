package usage

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/internal/filetree"
)

// emptyDirs is where the kubelet keeps a pod's emptyDirs, below pods/<uid>. One in memory is
// a mount there.
const emptyDirs = "volumes/kubernetes.io~empty-dir"

// part is the kind of a pod's directory.
type part uint8

const (
	layerPart part = iota
	logPart
	volumePart
)

// String names the part in a sentence.
func (p part) String() string { return [...]string{"writable layer", "logs", "emptyDir"}[p] }

// place is a directory that belongs to a pod.
type place struct {
	pod  int // in the call of Measure
	part part
	// base is a directory of the host, and path is below it. Links in base are followed,
	// within the host; only the node's administrator can write there. In path no link is
	// followed and no mount is entered.
	base, path string
	// device is written when the place is opened; 0 until then.
	device uint64
	// root is st_dev of the container's root, through which a layer's files appear; 0 for
	// anything but a layer.
	root uint64
}

// name identifies a pod's place. It includes the pod, because a pod may claim another pod's
// layer as its own.
func (p *place) name(pods []NodePod) string {
	return pods[p.pod].UID + ":" + filepath.Join(p.base, p.path)
}

// inHost opens a path as the host sees it, below the directory where the host's root is
// mounted: a link to /data leads to /data of the host.
func inHost(root int, path string, flags int) (int, error) {
	fd, err := unix.Openat2(root, filepath.Join(".", path), &unix.OpenHow{
		Flags:   uint64(flags | unix.O_DIRECTORY | unix.O_CLOEXEC), //nolint:gosec // flags
		Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS,
	})
	if err != nil {
		return -1, fmt.Errorf("opening the host's %s: %w", path, err)
	}
	return fd, nil
}

// open opens the place for reading. A place that was removed, or that is a mount, is not
// counted.
func (d *NodeDisk) open(p *place) (int, error) {
	base, err := inHost(d.root, p.base, unix.O_PATH)
	if err != nil {
		return -1, d.explain(err)
	}
	defer unix.Close(base) //nolint:errcheck // nothing was written
	fd, err := below(base, p.path)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EXDEV) {
		return -1, filetree.ErrElsewhere
	}
	return fd, err
}

// below opens a directory below another one without following a link or entering a
// mount.
func below(dir int, path string) (int, error) {
	fd, err := unix.Openat2(dir, path, &unix.OpenHow{
		Flags:   unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_XDEV,
	})
	if err != nil {
		return -1, fmt.Errorf("opening %q: %w", path, err)
	}
	return fd, nil
}

// start returns the task that opens the place on a worker. A place on none of the node's
// filesystems is not counted.
func (d *NodeDisk) start(p *place, l layout) filetree.Start {
	return func(t *filetree.Turn) (int, error) {
		d.opening(t.Context(), p)
		fd, err := d.open(p)
		if err != nil {
			return -1, err
		}
		p.device, err = deviceOf(fd)
		if err == nil && l.where(p.device) == nowhere {
			err = filetree.ErrElsewhere
		}
		if err != nil {
			_ = unix.Close(fd) // nothing was written
			return -1, err
		}
		return fd, nil
	}
}

func deviceOf(fd int) (uint64, error) {
	var stat unix.Stat_t
	err := unix.Fstat(fd, &stat)
	return stat.Dev, err
}

// maxEntries limits how many emptyDirs, containers or logs a pod may have.
const maxEntries = 10_000

// entriesOf lists a directory below one of the host's, which only the kubelet or the runtime
// writes to. A missing directory, or a mount, has no entries: nil.
func (d *NodeDisk) entriesOf(base, path string) ([]os.DirEntry, error) {
	dir, err := inHost(d.root, base, unix.O_PATH)
	if err != nil {
		return nil, err
	}
	defer unix.Close(dir) //nolint:errcheck // nothing was written
	fd, err := below(dir, path)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EXDEV) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(fd), path)
	defer file.Close() //nolint:errcheck // nothing was written
	entries, err := file.ReadDir(maxEntries)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	if err == nil && len(entries) == maxEntries {
		err = fmt.Errorf("listing %q: it has %d entries or more", path, maxEntries)
	}
	return entries, err
}

// volumes appends the pod's emptyDirs.
func (f *found) volumes(index int, pod *NodePod) error {
	base := filepath.Join(f.disk.options.KubeletDir, "pods")
	dir := filepath.Join(pod.UID, emptyDirs)
	entries, err := f.disk.entriesOf(base, dir)
	for _, entry := range entries {
		f.places = append(f.places, &place{pod: index, part: volumePart, base: base, path: filepath.Join(dir, entry.Name())})
	}
	return err
}

// logs appends the pod's logs, and the directory that a log links to: Docker writes logs
// below its own directory. A running pod has logs, so where there is no directory the
// kubelet keeps them elsewhere (its podLogsDir), or has not created it yet.
func (f *found) logs(index int, pod *NodePod) error {
	base := f.disk.options.LogDir
	dir := pod.Namespace + "_" + pod.Name + "_" + pod.UID
	containers, err := f.disk.entriesOf(base, dir)
	if err == nil && containers == nil && len(pod.Containers) > 0 {
		err = fmt.Errorf("its containers run and have no logs in %s", filepath.Join(base, dir))
	}
	if err != nil {
		return err
	}
	f.places = append(f.places, &place{pod: index, part: logPart, base: base, path: dir})
	for _, container := range containers {
		if !container.IsDir() {
			continue
		}
		if err := f.linkedLogs(index, base, filepath.Join(dir, container.Name())); err != nil {
			return err
		}
	}
	return nil
}

func (f *found) linkedLogs(index int, base, dir string) error {
	entries, err := f.disk.entriesOf(base, dir)
	known := map[string]bool{}
	for _, entry := range entries {
		if entry.Type()&os.ModeSymlink == 0 {
			continue
		}
		target, fault := f.disk.readlink(base, filepath.Join(dir, entry.Name()))
		if fault != nil {
			return fault
		}
		linked, found := strings.CutPrefix(filepath.Dir(filepath.Clean(target)), f.disk.options.LinkedLogDir+"/")
		if found && !known[linked] {
			known[linked] = true
			f.places = append(f.places, &place{pod: index, part: logPart, base: f.disk.options.LinkedLogDir, path: linked})
		}
	}
	return err
}

func (d *NodeDisk) readlink(base, path string) (string, error) {
	dir, err := inHost(d.root, base, unix.O_PATH)
	if err != nil {
		return "", err
	}
	defer unix.Close(dir) //nolint:errcheck // nothing was written
	parent, err := below(dir, filepath.Dir(path))
	if err != nil {
		return "", err
	}
	defer unix.Close(parent) //nolint:errcheck // nothing was written
	target := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(parent, filepath.Base(path), target)
	if err != nil {
		return "", fmt.Errorf("reading the link %q: %w", path, err)
	}
	return string(target[:n]), nil
}

// layers appends the writable layers of the pod's containers.
func (f *found) layers(index int, pod *NodePod) error {
	var faults []error
	for _, container := range pod.Containers {
		l, err := f.mounts.of(container, f.processes.byContainer[container])
		if err != nil {
			faults = append(faults, err)
			continue
		}
		f.places = append(f.places, &place{pod: index, part: layerPart, base: l.dir, path: ".", root: l.device})
	}
	return errors.Join(faults...)
}
