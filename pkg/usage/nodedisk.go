package usage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/internal/filetree"
)

// Where the kubelet keeps the pods' files and logs on the host, and Docker the logs that the kubelet's
// directory only links to.
const (
	podsDir      = filetree.KubeletDir + "/pods"
	logDir       = "/var/log/pods"
	linkedLogDir = "/var/lib/docker/containers"
)

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
	hostRoot string
	proc     string // the host's /proc as evictd sees it
	pool     *filetree.Pool
	last     map[string]DiskUse // by UID
	turns    map[string]turn    // of the last measurement, by UID
	// opening is called before a directory of a pod is opened, within the pod's time; a test lets it
	// hang.
	opening func(m *podDisk, path string)
}

// OpenNodeDisk prepares the measurement and checks that it can work here: an error names the
// missing directory or right. The host's directories are mounted below hostRoot; "" is the host
// itself. Cores is how much CPU time the measurement may use per second, in seconds.
func OpenNodeDisk(hostRoot string, cores float64) (*NodeDisk, error) {
	hostRoot = filepath.Join("/", hostRoot)
	d := &NodeDisk{
		hostRoot: hostRoot,
		proc:     filepath.Join(hostRoot, "proc"),
		pool:     filetree.NewPool(cores),
		opening:  func(*podDisk, string) {},
	}
	if err := d.check(); err != nil {
		return nil, err
	}
	return d, nil
}

// check opens what Measure needs.
func (d *NodeDisk) check() error {
	if _, err := d.layout(); err != nil {
		return err
	}
	for _, dir := range []string{podsDir, logDir} {
		fd, err := d.inHost(dir, unix.O_RDONLY)
		if err != nil {
			return err
		}
		_ = unix.Close(fd) // nothing was written
	}
	mounts, err := openLayers(d.proc)
	if err != nil {
		return d.explain(err)
	}
	return d.checkLayers(mounts)
}

// Measure returns the pods' usage by UID, and ends with the context. It first reads pods
// that were not reached the last time, then those that used most, and last those
// that take too long. A pod that was not read has its previous figures with their
// time, if these are at most a minute old, or a reason. Now is the time of the new figures.
// A pod without a kubelet directory is left out. An error means that nothing is known.
func (d *NodeDisk) Measure(ctx context.Context, now time.Time, pods []NodePod) (map[string]DiskUse, error) {
	defer d.pool.Rest()
	seen, err := d.look(ctx, pods)
	if err != nil {
		return nil, err
	}
	measured, turns := make(map[string]DiskUse, len(pods)), make(map[string]turn, len(pods))
	pods = d.inOrder(pods)
	for i := range pods {
		m := &podDisk{hostView: seen, disk: d, pod: &pods[i], use: usesNothing(), roots: maps.Clone(seen.layout)}
		use, end := m.measure(ctx, i+1 == len(pods))
		turns[m.pod.UID] = turnOf(end)
		if !errors.Is(end, errNone) {
			use.Time = now
			measured[m.pod.UID] = better(d.last[m.pod.UID], use, now)
		}
	}
	d.last, d.turns = measured, turns
	return measured, nil
}

// lastFor is how long a pod's previous figures replace those that there was no time for: as
// long as the kubelet uses its own (its interval of a minute). Older ones could count files
// that the pod has deleted since.
const lastFor = time.Minute

// better returns the previous figures where the new ones are incomplete and not larger.
func better(last, use DiskUse, now time.Time) DiskUse {
	most := func(last, use *Parts) bool {
		a, b := last.Sum(), use.Sum()
		return a.Bytes >= b.Bytes && a.Inodes >= b.Inodes
	}
	if use.Reason != "" && last.Reason == "" && now.Sub(last.Time) <= lastFor &&
		most(&last.NodeFS, &use.NodeFS) && most(&last.ImageFS, &use.ImageFS) {
		return last
	}
	return use
}

// hostView is what a measurement knows of the node before it reads files.
type hostView struct {
	layout map[uint64]where // the node's filesystems by st_dev
	mounts *layers
	// processes are those of containers, by the containers' ids. Each container may have more of them where
	// the container of some process could not be determined: unread.
	processes map[string][]int
	unread    bool
}

// lookName is the name of the task of look. No pod has it.
const lookName = "the pods' files"

// look looks at the node's mounts and processes.
func (d *NodeDisk) look(ctx context.Context, pods []NodePod) (*hostView, error) {
	wanted := map[string]bool{}
	for i := range pods {
		for _, container := range pods[i].Containers {
			wanted[container] = true
		}
	}
	seen := &hostView{}
	err := d.pool.Do(ctx, lookName, func(t *filetree.Turn) (err error) {
		if seen.layout, err = d.layout(); err != nil {
			return err
		}
		if seen.mounts, err = openLayers(d.proc); err != nil {
			return d.explain(err)
		}
		seen.processes, seen.unread, err = processesOf(t, d.proc, wanted)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("looking for the pods' files: %w", err)
	}
	return seen, nil
}

// inOrder returns pods by their last turns, then by their previous usage, the largest first, then by UID.
func (d *NodeDisk) inOrder(pods []NodePod) []NodePod {
	size := func(uid string) int64 {
		last := d.last[uid]
		return last.NodeFS.Sum().Bytes + last.ImageFS.Sum().Bytes
	}
	return slices.SortedFunc(slices.Values(pods), func(a, b NodePod) int {
		return cmp.Or(
			cmp.Compare(d.turns[a.UID], d.turns[b.UID]),
			cmp.Compare(size(b.UID), size(a.UID)), cmp.Compare(a.UID, b.UID))
	})
}

// turn is how the measurement of a pod ended. Pods are measured the next time in the order of these values.
type turn uint8

const (
	// notReached also applies to a pod that is new.
	notReached turn = iota
	// whole: it ended, perhaps with a fault that more time would not fix.
	whole
	// tooLong: its share of the time did not suffice. Such a pod comes last, with all the
	// time that the others leave, and delays none of them.
	tooLong
)

// turnOf returns the turn of a task that ended so.
func turnOf(end error) turn {
	switch {
	case errors.Is(end, filetree.ErrNotReached), errors.Is(end, filetree.ErrBusy):
		return notReached
	case errors.Is(end, filetree.ErrSilent),
		errors.Is(end, context.DeadlineExceeded), errors.Is(end, context.Canceled):
		return tooLong
	default:
		return whole
	}
}

// returned reports whether a task that ended so has returned.
func returned(end error) bool {
	return !errors.Is(end, filetree.ErrSilent) && turnOf(end) != notReached
}
