package pressure

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"time"
)

// MemoryDefinition says how memory.available and allocatableMemory.available are computed. The
// zero value is Kernel.
type MemoryDefinition uint8

// The definitions.
const (
	// Kernel is MemAvailable of /proc/meminfo: memory that is available without swapping. It
	// includes page cache and reclaimable slab, but not huge pages and watermarks. Of the limit
	// of the pods' cgroup it is what the kernel could give them: see findMemoryCgroup.
	Kernel MemoryDefinition = iota
	// WorkingSet is the kubelet's definition since Kubernetes 1.37: MemTotal minus the
	// working set of the root cgroup and minus huge pages, used or not, at least 0. It
	// counts active page cache as used. Earlier kubelets count huge pages as available.
	WorkingSet
)

// String returns the definition as the configuration writes it.
func (d MemoryDefinition) String() string {
	switch d {
	case Kernel:
		return "kernel"
	case WorkingSet:
		return "workingSet"
	default:
		return fmt.Sprintf("MemoryDefinition(%d)", uint8(d))
	}
}

// Options say what Open reads, and from where.
type Options struct {
	// HostRoot prefixes every path below: the directory where a container has the host's
	// root mounted. "" is the host itself.
	HostRoot string
	// Kubepods is the cgroup of all pods, relative to the cgroup mount, for example
	// "/kubepods.slice". "" means that there is none: allocatableMemory.available is Absent.
	Kubepods string
	// MemoryAvailable is the definition of memory.available and allocatableMemory.available.
	MemoryAvailable MemoryDefinition
	// KubeletDir is the kubelet's root directory on the host, whose filesystem is
	// nodefs; "" is /var/lib/kubelet.
	KubeletDir string
	// ImageDirs are the directories where a container runtime may keep its images on
	// the host; the filesystem of the first that exists is imagefs. nil is
	// containerd's, CRI-O's and Docker's. Where none exists, imagefs is nodefs.
	ImageDirs []string
	// FilesystemWait is how long a sample waits for filesystems, whose signals are unknown
	// then; 0 is 100 ms, for a loop that a dead mount must not hold up. [Open] waits for at
	// least 10 s.
	FilesystemWait time.Duration
	// StallKind and StallWindow say what memory.stall counts, and over which window; 0 is 2
	// s.
	StallKind   StallKind
	StallWindow time.Duration
	// Signals are the signals to read; all others stay Absent. Only the sources of these
	// signals must exist.
	Signals []Signal
	// Thresholds of memory.available are those near which what is free on the kernel's per-CPU
	// lists is added to MemAvailable, and that may make those of allocatableMemory.available
	// useless; see docs/signals.md.
	Thresholds []Threshold
}

// cgroupRoot is where cgroups are mounted on the host.
const cgroupRoot = "/sys/fs/cgroup"

func (o *Options) setDefaults() {
	if o.FilesystemWait == 0 {
		o.FilesystemWait = probeWait
	}
	if o.StallWindow == 0 {
		o.StallWindow = 2 * time.Second
	}
	if o.KubeletDir == "" {
		o.KubeletDir = "/var/lib/kubelet"
	}
	if o.ImageDirs == nil {
		o.ImageDirs = []string{"/var/lib/containerd", "/var/lib/containers/storage", "/var/lib/docker"}
	}
}

// host returns the path at which evictd sees a path of the host.
func (o *Options) host(path string) string { return filepath.Join("/", o.HostRoot, path) }

// ErrUnasked is why a signal is Absent that no threshold uses.
var ErrUnasked = errors.New("no threshold asks for this signal")

// Node reads the node's signals. It keeps files open between samples, so that a node without
// free file descriptors or memory can still be read. Sample and Close are for one goroutine;
// DedicatedImageFS may be called from any.
type Node struct {
	options Options
	wanted  [SignalCount]bool
	closed  bool

	meminfo  *kernelFile // nil when no signal needs it
	zoneinfo bytes.Buffer
	root     *memoryCgroup // as meminfo: the whole node, which the kubelet's definition needs
	kubepods *memoryCgroup
	stall    *stallSource
	noStall  error // why stall is nil although it was requested
	pids     *pidSource
	nodefs   *probe
	imagefs  *probe // the same as nodefs where there are no images, or no image signal

	// What DedicatedImageFS compares; set when a filesystem signal is requested.
	device               func(path string) (uint64, error)
	kubeletDir, imageDir string
}

// Open prepares to read the requested signals, and reads each of their sources once. What is
// missing then is a configuration error and fails Open with one sentence; the same fault
// later makes a signal Unknown.
func Open(options Options) (*Node, error) {
	return open(options, kernel())
}

// open is Open with the system calls that a test replaces.
func open(options Options, sys system) (*Node, error) {
	options.setDefaults()
	n := &Node{options: options}
	for _, signal := range options.Signals {
		if int(signal) >= SignalCount {
			return nil, fmt.Errorf("unknown signal %s", signal)
		}
		n.wanted[signal] = true
	}
	for _, prepare := range []func(system) error{n.openMemory, n.openAllocatable, n.openStall, n.openFilesystems, n.openPIDs} {
		if err := prepare(sys); err != nil {
			_ = n.Close() // the first fault is the one to report
			return nil, err
		}
	}
	return n, nil
}

func (n *Node) wants(signals ...Signal) bool {
	for _, s := range signals {
		if n.wanted[s] {
			return true
		}
	}
	return false
}

func (n *Node) openMemory(system) error {
	if !n.wants(MemoryAvailable, KubeletMemoryAvailable, AllocatableMemoryAvailable) {
		return nil
	}
	n.meminfo = newKernelFile(n.options.host("/proc/meminfo"), meminfoMax)
	for _, signal := range nodeMemory() {
		if n.wanted[signal] && n.definitionOf(signal) == WorkingSet && n.root == nil {
			root, err := findMemoryCgroup(n.options.host(cgroupRoot), "/", WorkingSet)
			if err != nil {
				return fmt.Errorf("preparing %s: %w", signal, err)
			}
			n.root = root
		}
	}
	var seen Sample
	_, _ = n.observeMemory(&seen) // the signals say it
	for _, signal := range nodeMemory() {
		if read := seen.Of(signal); n.wanted[signal] && read.State == Unknown {
			return fmt.Errorf("preparing %s: %w", signal, read.Err)
		}
	}
	return nil
}

func (n *Node) openAllocatable(system) error {
	if !n.wants(AllocatableMemoryAvailable) || n.options.Kubepods == "" {
		return nil
	}
	var err error
	if n.kubepods, err = findMemoryCgroup(n.options.host(cgroupRoot), n.options.Kubepods, n.options.MemoryAvailable); err == nil {
		err = n.allocatable(n.observeMemory(&Sample{})).Err
	}
	if err != nil && !errors.Is(err, errUnlimited) {
		return fmt.Errorf("preparing %s: %w", AllocatableMemoryAvailable, err)
	}
	return nil
}

// Sample reads the node. The caller takes now just before: the reading is never older than
// its time. A source that fails makes only its own signals Unknown. Sample returns
// within about Options.FilesystemWait, even while a filesystem does not respond.
func (n *Node) Sample(now time.Time) Sample {
	s := Sample{Time: now}
	for i := range s.Observations {
		s.Observations[i] = n.blank(Signal(i))
	}
	if n.closed {
		return s
	}
	n.startProbes()
	capacity, err := n.observeMemory(&s)
	if n.wanted[AllocatableMemoryAvailable] {
		s.Observations[AllocatableMemoryAvailable] = n.allocatable(capacity, err)
	}
	if n.wanted[MemoryStall] {
		s.Observations[MemoryStall] = n.stalls(now)
	}
	if n.wanted[PIDAvailable] {
		s.Observations[PIDAvailable] = n.pids.observe()
	}
	n.observeFilesystems(&s)
	return s
}

// blank is the state of a signal before anything is read.
func (n *Node) blank(signal Signal) Observation {
	if !n.wanted[signal] {
		return absent(ErrUnasked)
	}
	return unknown(errClosed)
}

var errClosed = errors.New("the sampler is closed")

// Close closes the files. It waits a moment for filesystems that have not responded, and
// names those that still have not: the kernel call cannot be interrupted, and its goroutine
// ends when the call returns. Sample reads nothing after Close.
func (n *Node) Close() error {
	n.closed = true
	n.closeFiles()
	return n.closeProbes()
}

func (n *Node) closeFiles() {
	if n.meminfo != nil {
		n.meminfo.Close()
	}
	if n.stall != nil {
		n.stall.file.Close()
	}
	if n.pids != nil {
		n.pids.close()
	}
	for _, g := range []*memoryCgroup{n.root, n.kubepods} {
		if g != nil {
			g.close()
		}
	}
}

func unknown(err error) Observation { return Observation{State: Unknown, Err: err} }

func absent(err error) Observation { return Observation{State: Absent, Err: err} }
