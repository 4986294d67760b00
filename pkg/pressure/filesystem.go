package pressure

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/evictd/evictd/internal/filetree"
)

// probeWait and openWait are how long a sample and [Open] wait for filesystems. A local one
// answers in microseconds, on a busy machine later; a dead network mount answers never, and no
// signal or context interrupts the call. Open holds up no loop.
const (
	probeWait = 100 * time.Millisecond
	openWait  = 10 * time.Second
)

// errNoInodes is the reason of an absent inode signal.
var errNoInodes = errors.New("the filesystem does not count inodes")

// probe reads one filesystem. The call runs in its own goroutine; at most one runs at a
// time.
type probe struct {
	path   string
	ask    func(path string) (filesystem, error)
	answer chan probeAnswer // holds one
	// pending: a goroutine is running. late: it missed the wait of the sample that started
	// it, so its answer will be out of date.
	pending, late bool
	seen          probeAnswer // of the last sample
}

type probeAnswer struct {
	filesystem
	err error
}

// newProbe prepares to read the filesystem of a directory of the host, which must exist.
func (n *Node) newProbe(dir string) (*probe, error) {
	path, err := resolve(n.options.HostRoot, dir)
	if err != nil {
		return nil, fmt.Errorf("looking for %s: %w", n.options.host(dir), err)
	}
	p := &probe{path: path, ask: n.sys.statfs, answer: make(chan probeAnswer, 1)}
	n.probes = append(n.probes, p)
	return p, nil
}

// start begins a read, unless a late one is still running. It discards a late answer: the
// time at which the kernel read it is unknown.
func (p *probe) start() {
	if p.pending && len(p.answer) > 0 {
		<-p.answer
		p.pending = false
	}
	p.late = p.pending
	if !p.pending {
		p.pending = true
		go func() {
			read, err := p.ask(p.path)
			p.answer <- probeAnswer{read, err}
		}()
	}
}

// finish sees the answer to start, or why there is none. A timer that has fired stays fired for the
// next probe, so all probes share one wait.
func (p *probe) finish(timer *time.Timer, wait time.Duration) {
	if !p.late {
		select {
		case p.seen = <-p.answer:
			p.pending = false
		case <-timer.C:
			timer.Reset(0)
			if p.late = len(p.answer) == 0; !p.late {
				p.seen, p.pending = <-p.answer, false
			}
		}
	}
	if p.late {
		p.seen = probeAnswer{err: fmt.Errorf("it has not answered within %s", wait)}
	}
	if p.seen.err != nil {
		p.seen.err = fmt.Errorf("reading the filesystem of %s: %w", p.path, p.seen.err)
	}
}

// findFilesystems looks for the directories whose filesystems are nodefs and imagefs.
func (n *Node) findFilesystems() error {
	images := n.wants(ImageFSAvailable, ImageFSInodesFree, ContainerFSAvailable, ContainerFSInodesFree)
	if !images && !n.wants(NodeFSAvailable, NodeFSInodesFree) {
		return nil
	}
	var err error
	if n.nodefs, err = n.newProbe(filetree.KubeletDir); err != nil {
		return fmt.Errorf("preparing nodefs: the kubelet's root directory: %w", err)
	}
	if n.imagefs = n.nodefs; !images {
		return nil
	}
	for _, dir := range filetree.ImageDirs() {
		switch own, err := n.newProbe(dir); {
		case err == nil:
			n.imagefs = own // also when both are one filesystem now: another one may be mounted there later
			return nil
		case !errors.Is(err, os.ErrNotExist):
			return fmt.Errorf("preparing imagefs: %w", err)
		}
	}
	return nil
}

// probe returns what reads the filesystem of a signal; nil for other signals and those that were not
// requested. A runtime other than CRI-O reports its writable layers on imagefs
// (pkg/kubelet/stats/cri_stats_provider.go, ImageFsStats), so containerfs is the same as imagefs. Where
// CRI-O keeps layers on nodefs and images elsewhere, containerfs is nodefs. Evictd cannot detect that, so
// no threshold may be set on containerfs and no decision uses it.
func (n *Node) probe(s Signal) *probe {
	switch {
	case !s.OnDisk() || !n.wants(s):
		return nil
	case s.Filesystem() == NodeFS:
		return n.nodefs
	default:
		return n.imagefs
	}
}

// Directory returns the directory whose filesystem a signal is about, below the host root; "" for
// other signals and those that were not requested.
func (n *Node) Directory(s Signal) string {
	if p := n.probe(s); p != nil {
		return p.path
	}
	return ""
}

// observeFilesystems fills in the filesystems' signals, whose probes have been started.
func (n *Node) observeFilesystems(s *Sample, wait time.Duration) {
	if len(n.probes) == 0 {
		return
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for _, p := range n.probes {
		p.finish(timer, wait)
	}
	for _, signal := range n.options.Signals {
		if p := n.probe(signal); p != nil {
			s.Observations[signal] = p.seen.of(signal.Kind())
		}
	}
}

// of returns the reading of bytes, or of inodes.
func (a *probeAnswer) of(kind Kind) Observation {
	switch {
	case a.err != nil:
		return unknown(a.err)
	case kind == SpaceKind:
		return Observation{State: Known, Available: a.available, Capacity: a.capacity, Device: a.device}
	case a.inodes == 0:
		return absent(errNoInodes)
	default:
		return Observation{State: Known, Available: a.inodesFree, Capacity: a.inodes, Device: a.device}
	}
}
