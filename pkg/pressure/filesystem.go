package pressure

import (
	"errors"
	"fmt"
	"os"
	"time"
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
	statfs func(path string) (filesystem, error)
	device func(path string) (uint64, error)
	answer chan probeAnswer // holds one
	// pending: a goroutine is running. late: it missed the wait of the sample that started
	// it, so its answer will be out of date.
	pending, late bool
}

type probeAnswer struct {
	filesystem filesystem
	device     uint64 // 0 where it is unknown
	err        error
}

func newProbe(path string, sys system) *probe {
	return &probe{path: path, statfs: sys.statfs, device: sys.device, answer: make(chan probeAnswer, 1)}
}

// ask reads the figures and the device number. Figures without a device number are still
// valid.
func (p *probe) ask() probeAnswer {
	fs, err := p.statfs(p.path)
	if err != nil {
		return probeAnswer{err: err}
	}
	device, err := p.device(p.path)
	if err != nil {
		device = 0
	}
	return probeAnswer{filesystem: fs, device: device}
}

// start begins a read, unless a late one is still running. It discards a late answer: the
// time at which the kernel read it is unknown.
func (p *probe) start() {
	if p.pending && p.late {
		select {
		case <-p.answer:
			p.pending, p.late = false, false
		default:
		}
	}
	if p.pending {
		return
	}
	p.pending = true
	go func() { p.answer <- p.ask() }()
}

// finish returns the answer to start. Its error says why there is no answer, or that the
// timer fired first, after that wait.
func (p *probe) finish(timer *time.Timer, wait time.Duration) probeAnswer {
	if p.late || !p.arrives(timer) {
		p.late = true
		return probeAnswer{err: fmt.Errorf("reading the filesystem of %s: it has not answered within %s", p.path, wait)}
	}
	a := <-p.answer
	p.pending = false
	if a.err != nil {
		return probeAnswer{err: fmt.Errorf("reading the filesystem of %s: %w", p.path, a.err)}
	}
	return a
}

// arrives waits for an answer until the timer fires, and leaves it in the channel. A timer
// that has fired stays fired for the next probe, so all probes share one wait.
func (p *probe) arrives(timer *time.Timer) bool {
	select {
	case a := <-p.answer:
		p.answer <- a
		return true
	case <-timer.C:
		timer.Reset(0)
		return len(p.answer) > 0
	}
}

// close waits for a running read.
func (p *probe) close(timer *time.Timer) error {
	if p.pending && !p.arrives(timer) {
		return fmt.Errorf("closing the sampler: the filesystem of %s still does not answer", p.path)
	}
	return nil
}

func (n *Node) openFilesystems(sys system) error {
	images := n.wants(ImageFSAvailable, ImageFSInodesFree, ContainerFSAvailable, ContainerFSInodesFree)
	if !images && !n.wants(NodeFSAvailable, NodeFSInodesFree) {
		return nil
	}
	kubeletDir, err := resolve(n.options.HostRoot, n.options.KubeletDir)
	if err != nil {
		return fmt.Errorf("preparing nodefs: the kubelet's root directory: %w", err)
	}
	if _, err = sys.device(kubeletDir); err != nil {
		return fmt.Errorf("preparing nodefs: the kubelet's root directory: %w", err)
	}
	imageDir, err := n.findImages(sys)
	if err != nil {
		return fmt.Errorf("preparing imagefs: %w", err)
	}
	n.device, n.kubeletDir, n.imageDir = sys.device, kubeletDir, imageDir
	n.nodefs = newProbe(kubeletDir, sys)
	n.imagefs = n.nodefs
	if imageDir != "" && images {
		// Also when both are one filesystem now: another one may be mounted there later.
		n.imagefs = newProbe(imageDir, sys)
	}
	nodefs, imagefs := n.readFilesystems(max(openWait, n.options.FilesystemWait))
	if nodefs.err != nil {
		return fmt.Errorf("preparing nodefs: %w", nodefs.err)
	}
	if imagefs.err != nil {
		return fmt.Errorf("preparing imagefs: %w", imagefs.err)
	}
	return nil
}

// findImages returns the first directory for images that exists; "" when there is none.
func (n *Node) findImages(sys system) (string, error) {
	for _, candidate := range n.options.ImageDirs {
		dir, err := resolve(n.options.HostRoot, candidate)
		if err == nil {
			_, err = sys.device(dir)
		}
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		return dir, err
	}
	return "", nil
}

// Directory returns the directory whose filesystem a signal is about, below the host root; "" for
// other signals and those that were not requested.
func (n *Node) Directory(s Signal) string {
	if n.nodefs == nil || !n.wanted[s] {
		return ""
	}
	switch s {
	case NodeFSAvailable, NodeFSInodesFree:
		return n.nodefs.path
	case ImageFSAvailable, ImageFSInodesFree, ContainerFSAvailable, ContainerFSInodesFree:
		return n.imagefs.path
	default:
		return ""
	}
}

// DedicatedImageFS reports whether the runtime's images are currently on their own
// filesystem, which the kubelet's ranking by disk usage depends on. It compares device
// numbers, so two subvolumes of one btrfs count as two filesystems. It looks at each call,
// because mounts change, and it blocks while one of them does not respond. An error means
// that a directory cannot be read, or that no requested signal is about a filesystem.
func (n *Node) DedicatedImageFS() (bool, error) {
	if n.nodefs == nil {
		return false, ErrUnasked
	}
	if n.imageDir == "" {
		return false, nil
	}
	node, err := n.device(n.kubeletDir)
	if err != nil {
		return false, err
	}
	images, err := n.device(n.imageDir)
	return node != images, err
}

// startProbes starts to read the filesystems; readFilesystems waits for both together.
func (n *Node) startProbes() {
	if n.nodefs != nil {
		n.nodefs.start()
		n.imagefs.start()
	}
}

func (n *Node) readFilesystems(wait time.Duration) (nodefs, imagefs probeAnswer) {
	n.startProbes()
	timer := time.NewTimer(wait)
	defer timer.Stop()
	nodefs = n.nodefs.finish(timer, wait)
	if n.imagefs == n.nodefs {
		return nodefs, nodefs
	}
	return nodefs, n.imagefs.finish(timer, wait)
}

// observeFilesystems fills in the filesystems' signals. A runtime other than CRI-O reports
// its writable layers on imagefs (pkg/kubelet/stats/cri_stats_provider.go, ImageFsStats), so
// containerfs is the same as imagefs. Where CRI-O keeps layers on nodefs and images
// elsewhere, containerfs is nodefs. Evictd cannot detect that, so no threshold may be set on
// containerfs and no decision uses it.
func (n *Node) observeFilesystems(s *Sample) {
	if n.nodefs == nil {
		return
	}
	nodefs, imagefs := n.readFilesystems(n.options.FilesystemWait)
	n.observe(s, NodeFSAvailable, NodeFSInodesFree, &nodefs)
	n.observe(s, ImageFSAvailable, ImageFSInodesFree, &imagefs)
	n.observe(s, ContainerFSAvailable, ContainerFSInodesFree, &imagefs)
}

func (n *Node) observe(s *Sample, space, inodes Signal, a *probeAnswer) {
	seenSpace, seenInodes := unknown(a.err), unknown(a.err)
	if a.err == nil {
		seenSpace = Observation{State: Known, Available: a.filesystem.available, Capacity: a.filesystem.capacity, Device: a.device}
		seenInodes = Observation{State: Known, Available: a.filesystem.inodesFree, Capacity: a.filesystem.inodes, Device: a.device}
		if a.filesystem.inodes == 0 {
			seenInodes = absent(errNoInodes)
		}
	}
	if n.wanted[space] {
		s.Observations[space] = seenSpace
	}
	if n.wanted[inodes] {
		s.Observations[inodes] = seenInodes
	}
}

func (n *Node) closeProbes() error {
	if n.nodefs == nil {
		return nil
	}
	timer := time.NewTimer(n.options.FilesystemWait)
	defer timer.Stop()
	err := n.nodefs.close(timer)
	if n.imagefs != n.nodefs {
		err = errors.Join(err, n.imagefs.close(timer))
	}
	return err
}
