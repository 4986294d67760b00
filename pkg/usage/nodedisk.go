package usage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/internal/filetree"
)

// NodeDiskOptions say where a node keeps the pods' files, and how much time and CPU the
// measurement may use.
type NodeDiskOptions struct {
	// HostRoot is the directory below which the host's directories are mounted; "" is the
	// host itself.
	HostRoot string
	// KubeletDir is the kubelet's root directory on the host, whose filesystem is
	// nodefs; "" is /var/lib/kubelet.
	KubeletDir string
	// LogDir is where the kubelet has the pods' logs; "" is /var/log/pods.
	LogDir string
	// LinkedLogDir is where a runtime keeps the logs that LogDir only links to; "" is
	// Docker's, /var/lib/docker/containers.
	LinkedLogDir string
	// ImageDirs are as in pressure.Options; nil is the same default.
	ImageDirs []string
	// Workers is how many threads read directories at a time, 0 is one. Cores is how much
	// CPU time they may use together per second, in seconds; 0 is one core.
	Workers int
	Cores   float64
}

func (o *NodeDiskOptions) setDefaults() {
	o.HostRoot = cmp.Or(o.HostRoot, "/")
	o.KubeletDir = cmp.Or(o.KubeletDir, "/var/lib/kubelet")
	o.LogDir = cmp.Or(o.LogDir, "/var/log/pods")
	o.LinkedLogDir = cmp.Or(o.LinkedLogDir, "/var/lib/docker/containers")
	o.Cores = cmp.Or(o.Cores, 1)
	if o.ImageDirs == nil {
		o.ImageDirs = []string{"/var/lib/containerd", "/var/lib/containers/storage", "/var/lib/docker"}
	}
}

// NodePod holds the facts that are needed to find a pod's files.
type NodePod struct {
	// UID is the kubelet's, as in the names of directories: the API server's, except for
	// static pods.
	UID string
	// Namespace and Name are in the name of the directory of logs.
	Namespace, Name string
	// Containers are the runtime's ids of the running containers. As in the kubelet, the
	// files of ended containers are not counted (pkg/kubelet/stats/cri_stats_provider.go,
	// removeTerminatedContainers).
	Containers []string
}

// NodeDisk measures the pods' disk usage by reading their files. It does nothing between two
// calls of Measure. It is for one goroutine.
type NodeDisk struct {
	options NodeDiskOptions
	root    int    // HostRoot, open
	proc    string // the host's /proc as evictd sees it
	pool    *filetree.Pool
	// descriptors reads the open files of processes, apart from the trees: a pod that blocks
	// it with a filesystem of its own hides only deleted files.
	descriptors *filetree.Pool
	last        map[string]DiskUse // by UID
	turns       turns              // of the last measurement
	// opening is called before a place is opened, within the place's time; a test lets it
	// hang.
	opening func(ctx context.Context, p *place)
}

// OpenNodeDisk prepares the measurement and checks that it can work here: an error names the
// missing directory or right.
func OpenNodeDisk(options NodeDiskOptions) (*NodeDisk, error) {
	options.setDefaults()
	root, err := unix.Open(options.HostRoot, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w", options.HostRoot, err)
	}
	d := &NodeDisk{
		options: options,
		root:    root,
		proc:    filepath.Join(options.HostRoot, "proc"),
		pool:    filetree.NewPool(options.Workers, options.Cores),
		last:    map[string]DiskUse{},
		turns:   turns{},
		opening: func(context.Context, *place) {},

		descriptors: filetree.NewPool(1, options.Cores),
	}
	if err := d.check(); err != nil {
		_ = d.Close() // the first fault is the one to report
		return nil, err
	}
	return d, nil
}

// check opens what Measure needs.
func (d *NodeDisk) check() error {
	if _, err := d.layout(); err != nil {
		return d.explain(err)
	}
	for _, dir := range []string{filepath.Join(d.options.KubeletDir, "pods"), d.options.LogDir} {
		fd, err := inHost(d.root, dir, unix.O_RDONLY)
		if err != nil {
			return d.explain(err)
		}
		_ = unix.Close(fd) // nothing was written
	}
	mounts, err := openLayers(d.proc)
	if err != nil {
		return d.explain(err)
	}
	return d.checkLayers(mounts)
}

// explain adds to a fault how to fix it.
func (d *NodeDisk) explain(err error) error {
	switch {
	case errors.Is(err, unix.ENOSYS):
		return fmt.Errorf("%w; the kernel is older than Linux 5.6 and cannot open files safely: use the source summary", err)
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		return fmt.Errorf("%w; measuring on the node needs root and CAP_DAC_READ_SEARCH", err)
	case errors.Is(err, unix.ENOENT):
		return fmt.Errorf("%w; mount it below %s at the same path", err, d.options.HostRoot)
	default:
		return err
	}
}

// Close closes the host's root. It stays open while a filesystem that does not respond
// blocks a worker.
func (d *NodeDisk) Close() error {
	if d.pool.Out() > 0 {
		return nil
	}
	return unix.Close(d.root)
}

// Measure returns the pods' usage by UID, and ends with the context. It first reads places
// that were not reached the last time, then those of the pods that used most, and last those
// that take too long. A place that was not read has the pod's previous figures with their
// time, if these are at most a minute old, or a reason. Now is the time of the new figures.
// A pod without a kubelet directory is left out. An error means that nothing is known.
func (d *NodeDisk) Measure(ctx context.Context, now time.Time, pods []NodePod) (map[string]DiskUse, error) {
	ordered := d.bySize(pods)
	f, err := d.look(ctx, ordered)
	if err != nil {
		return nil, d.explain(err)
	}
	counts, err := d.count(ctx, f)
	if err != nil {
		return nil, err
	}
	d.lookForDeleted(ctx, f)
	measured := f.sum(ordered, counts, now)
	for uid, use := range measured {
		measured[uid] = better(d.last[uid], use, now)
	}
	d.last, d.turns = measured, f.turns
	return measured, nil
}

// lastFor is how long a pod's previous figures replace those that there was no time for: as
// long as the kubelet uses its own (its interval of a minute). Older ones could count files
// that the pod has deleted since.
const lastFor = time.Minute

// better returns the previous figures where the new ones are incomplete and not larger.
func better(last, use DiskUse, now time.Time) DiskUse {
	if use.Reason != "" && last.Reason == "" && now.Sub(last.Time) <= lastFor &&
		last.NodeFS.Bytes >= use.NodeFS.Bytes && last.ImageFS.Bytes >= use.ImageFS.Bytes &&
		last.NodeFS.Inodes >= use.NodeFS.Inodes && last.ImageFS.Inodes >= use.ImageFS.Inodes {
		return last
	}
	return use
}

// bySize orders pods by their previous usage, those of the same size by UID.
func (d *NodeDisk) bySize(pods []NodePod) []NodePod {
	size := func(pod *NodePod) int64 {
		last := d.last[pod.UID]
		return last.NodeFS.Bytes + last.ImageFS.Bytes
	}
	ordered := slices.Clone(pods)
	slices.SortFunc(ordered, func(a, b NodePod) int {
		return cmp.Or(cmp.Compare(size(&b), size(&a)), cmp.Compare(a.UID, b.UID))
	})
	return ordered
}

// where is a set of the node's filesystems.
type where uint8

const (
	nowhere  where = 0
	onNodeFS where = 1 << iota
	onImageFS
)

// layout says which filesystem is which.
type layout struct{ node, image uint64 }

func (l layout) where(device uint64) where {
	on := nowhere
	if device == l.node {
		on |= onNodeFS
	}
	if device == l.image {
		on |= onImageFS
	}
	return on
}

// layout reads which filesystems there are now.
func (d *NodeDisk) layout() (layout, error) {
	node, err := d.device(d.options.KubeletDir)
	if err != nil {
		return layout{}, err
	}
	for _, dir := range d.options.ImageDirs {
		image, err := d.device(dir)
		if err == nil {
			return layout{node: node, image: image}, nil
		}
		if !errors.Is(err, unix.ENOENT) {
			return layout{}, err
		}
	}
	return layout{node: node, image: node}, nil
}

func (d *NodeDisk) device(dir string) (uint64, error) {
	fd, err := inHost(d.root, dir, unix.O_PATH)
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd) //nolint:errcheck // nothing was written
	return deviceOf(fd)
}

// found holds the locations of the pods' files.
type found struct {
	disk      *NodeDisk
	layout    layout
	mounts    *layers
	processes *processes
	places    []*place
	ordered   []NodePod
	pods      []foundPod // by the index of the pod
	turns     turns      // of the places that were read
}

// foundPod holds what is known of a pod before its files are counted.
type foundPod struct {
	faults    [3]error // by part
	absent    bool
	processes []int
	deleted   deletedFiles
	noDeleted error // why there may be more deleted files
}

// lookName is the name of the search in the list of workers' tasks. No place has it.
const lookName = "the pods' files"

// look finds the pods' files on a worker. It abandons the worker when the context ends
// first: a directory may be on a filesystem that does not respond.
func (d *NodeDisk) look(ctx context.Context, pods []NodePod) (*found, error) {
	answer := make(chan *found, 1)
	start := func(t *filetree.Turn) (int, error) {
		f, err := d.find(t, pods)
		answer <- f
		return -1, cmp.Or(err, filetree.ErrElsewhere)
	}
	counts, err := run(ctx, d.pool, []filetree.Tree{{Name: lookName, Start: start}}, func(int) {})
	if err == nil {
		err = counts[0].Partial
	}
	if err != nil {
		return nil, fmt.Errorf("looking for the pods' files: %w", err)
	}
	return <-answer, nil
}

func (d *NodeDisk) find(t *filetree.Turn, pods []NodePod) (*found, error) {
	f := &found{disk: d, ordered: pods, pods: make([]foundPod, len(pods)), turns: turns{}}
	var err error
	if f.layout, err = d.layout(); err != nil {
		return nil, err
	}
	if f.mounts, err = openLayers(d.proc); err != nil {
		return nil, err
	}
	wanted := map[string]bool{}
	for i := range pods {
		for _, container := range pods[i].Containers {
			wanted[container] = true
		}
	}
	if f.processes, err = processesOf(t, d.proc, wanted); err != nil {
		return nil, err
	}
	for i := range pods {
		if err := t.Breathe(); err != nil {
			return nil, err
		}
		f.findPod(i, &pods[i])
	}
	return f, nil
}

func (f *found) findPod(index int, pod *NodePod) {
	p := &f.pods[index]
	if err := pod.check(); err != nil {
		p.faults[volumePart] = err
		return
	}
	if present, err := f.disk.present(pod); err != nil || !present {
		p.absent, p.faults[volumePart] = err == nil, err
		return
	}
	p.faults[volumePart] = f.volumes(index, pod)
	p.faults[logPart] = f.logs(index, pod)
	p.faults[layerPart] = f.layers(index, pod)
	p.processes, p.noDeleted = f.processes.of(pod)
}

// check rejects names that would lead to another path. The API server allows none.
func (p *NodePod) check() error {
	for _, name := range []string{p.UID, p.Namespace, p.Name} {
		if name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\x00") {
			return fmt.Errorf("looking for the pod's files: %q is no name", name)
		}
	}
	return nil
}

// present reports whether the kubelet has a directory for the pod.
func (d *NodeDisk) present(pod *NodePod) (bool, error) {
	base, err := inHost(d.root, filepath.Join(d.options.KubeletDir, "pods"), unix.O_PATH)
	if err != nil {
		return false, err
	}
	defer unix.Close(base) //nolint:errcheck // nothing was written
	fd, err := below(base, pod.UID)
	if errors.Is(err, unix.ENOENT) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, unix.Close(fd)
}
