package usage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/internal/filetree"
)

// emptyDirs is where the kubelet keeps a pod's emptyDirs, below pods/<uid>. One in memory is
// a mount there.
const emptyDirs = "volumes/kubernetes.io~empty-dir"

// podDisk measures the files of one pod, on a worker, which may outlive the call of Measure.
type podDisk struct {
	*hostView
	disk *NodeDisk
	pod  *NodePod
	turn *filetree.Turn

	use DiskUse
	// roots are the layout and, by st_dev of the containers' roots, through which a process sees the files of a layer,
	// the filesystems of the layers.
	roots map[uint64]where
	// gone are the deleted files that were counted.
	gone map[inode]bool
}

// busy is with how many workers that wait for filesystems no deleted files are looked for: the others are for
// the trees. A file may be on any filesystem, also one of the pod's own.
const busy = 2

// measure returns what the pod uses, by a measurement in half of the time that is left while others wait, so that a
// pod that never ends leaves some to all of them. An error says why there may be more; errNone is a pod that
// the kubelet has no directory for.
func (m *podDisk) measure(ctx context.Context, last bool) (DiskUse, error) {
	if end, bounded := ctx.Deadline(); bounded && !last {
		half, cancel := context.WithTimeout(ctx, time.Until(end)/2) //nolint:forbidigo // a share of the time, by which nothing is decided
		defer cancel()
		ctx = half
	}
	pool := m.disk.pool
	end := pool.Do(ctx, m.pod.UID, m.trees)
	if !returned(end) { // a worker may still write to it
		return DiskUse{Reason: end.Error()}, end
	}
	more := *m
	if pool.Out() < busy {
		late := pool.Do(ctx, "deleted files of "+m.pod.UID, more.deleted)
		if end = cmp.Or(end, late); returned(late) {
			return more.use, end
		}
	}
	m.use.add(Deleted, onBoth, FSUse{})
	return m.use, end
}

// trees counts the pod's directories. It returns an error when its time is up.
func (m *podDisk) trees(turn *filetree.Turn) error {
	m.turn = turn
	fd, err := m.disk.below(podsDir, m.pod.UID)
	if err != nil {
		for p := range partCount {
			m.fault(p, onBoth, err)
		}
		return err
	}
	_ = unix.Close(fd) // nothing was written
	m.volumes()
	m.logs()
	m.layers()
	return turn.Context().Err()
}

// fault makes a part a lower bound on these filesystems, where there is an error, and keeps the first reason.
func (m *podDisk) fault(p Part, on where, err error) {
	if err != nil {
		m.use.add(p, on, FSUse{})
		m.use.Reason = cmp.Or(m.use.Reason, err.Error())
	}
}

// count counts a directory below one of the host's, and returns the filesystems that it is on. One on
// none of the node's filesystems is not counted.
func (m *podDisk) count(p Part, base, path string) (on where, err error) {
	m.disk.opening(m, path)
	fd, err := m.disk.below(base, path)
	if errors.Is(err, errNone) {
		return nowhere, nil
	}
	c := filetree.Count{Partial: err}
	if err == nil {
		c = m.turn.Count(fd, func(device uint64) bool { return m.layout[device] != nowhere })
	}
	if c.Inodes == 0 { // not even its start was looked at
		err = fmt.Errorf("counting the %s: %w", p, c.Partial)
		m.fault(p, onBoth, err)
		return nowhere, err
	}
	on = m.layout[c.Device]
	m.use.add(p, on, FSUse{Bytes: c.Bytes, Inodes: c.Inodes, BytesKnown: true, InodesKnown: true})
	if c.Partial != nil && on != nowhere {
		m.fault(p, on, fmt.Errorf("counting the %s: %w", p, c.Partial))
	}
	return on, nil
}

// volumes counts the pod's emptyDirs.
func (m *podDisk) volumes() {
	dir := filepath.Join(m.pod.UID, emptyDirs)
	entries, err := m.disk.list(podsDir, dir)
	m.fault(Volumes, onBoth, err)
	for _, entry := range entries {
		_, _ = m.count(Volumes, podsDir, filepath.Join(dir, entry.Name())) // its fault is noted
	}
}

// logs counts the pod's logs. A running pod has logs, so where there is no directory the kubelet keeps
// them elsewhere (its podLogsDir), or has not created it yet.
func (m *podDisk) logs() {
	dir := m.pod.Namespace + "_" + m.pod.Name + "_" + m.pod.UID
	containers, err := m.disk.list(logDir, dir)
	if err == nil && containers == nil && len(m.pod.Containers) > 0 {
		err = fmt.Errorf("its containers run and have no logs in %s", filepath.Join(logDir, dir))
	}
	if m.fault(Logs, onBoth, err); err != nil {
		return
	}
	_, _ = m.count(Logs, logDir, dir) // its fault is noted
	linked := map[string]bool{}
	for _, container := range containers {
		if container.IsDir() {
			m.fault(Logs, onBoth, m.findLinked(filepath.Join(dir, container.Name()), linked))
		}
	}
	for dir := range linked {
		_, _ = m.count(Logs, linkedLogDir, dir) // its fault is noted
	}
}

// findLinked adds the directories that a container's logs link to: Docker writes logs below its own.
func (m *podDisk) findLinked(dir string, into map[string]bool) error {
	entries, err := m.disk.list(logDir, dir)
	for _, entry := range entries {
		if entry.Type()&os.ModeSymlink == 0 {
			continue
		}
		target, fault := m.disk.readlink(logDir, filepath.Join(dir, entry.Name()))
		err = cmp.Or(err, fault)
		if linked, found := strings.CutPrefix(filepath.Dir(filepath.Clean(target)), linkedLogDir+"/"); found {
			into[linked] = true
		}
	}
	return err
}

// layers counts the writable layers of the pod's containers. Deleted files in one that is not known are
// not known either.
func (m *podDisk) layers() {
	for _, container := range m.pod.Containers {
		root, err := m.mounts.of(container, m.processes[container])
		m.fault(Layers, onBoth, err)
		if err == nil {
			m.roots[root.device], err = m.count(Layers, root.upperDir(), ".")
		}
		m.fault(Deleted, onBoth, err)
		if err == nil && m.roots[root.device] == onNodeFS {
			m.use.SplitLayers = true // nodefs alone: images are elsewhere
		}
	}
}
