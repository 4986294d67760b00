package pressure

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"
)

// MemoryDefinition says how memory.available is computed. The zero value is
// Kernel.
type MemoryDefinition uint8

// The definitions.
const (
	// Kernel is MemAvailable of /proc/meminfo: what can be had without swapping,
	// page cache and reclaimable slab included, hugepages and watermarks not.
	Kernel MemoryDefinition = iota
	// WorkingSet is that of the kubelet since Kubernetes 1.37: MemTotal minus the working
	// set of the root cgroup and minus huge pages, used or not, at least 0. It counts
	// active page cache as used. Earlier kubelets count huge pages as available.
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

// Options say what Open should read and where it is.
type Options struct {
	// HostRoot prefixes every path below: the directory where a container sees the
	// host's root. "" is the host itself.
	HostRoot string
	// Kubepods is the cgroup of all pods, relative to the cgroup mount, for example
	// "/kubepods.slice". "" says that there is none: allocatableMemory.available is
	// Absent then.
	Kubepods string
	// MemoryAvailable is the definition of memory.available.
	MemoryAvailable MemoryDefinition
	// KubeletDir is the kubelet's root directory on the host, whose filesystem is
	// nodefs; "" is /var/lib/kubelet.
	KubeletDir string
	// ImageDirs are the directories where a container runtime may keep its images on
	// the host; the filesystem of the first that exists is imagefs. nil is
	// containerd's, CRI-O's and Docker's. Where none exists, imagefs is nodefs.
	ImageDirs []string
	// StallKind and StallWindow say what memory.stall counts, and over how long; 0 is
	// 2 s.
	StallKind   StallKind
	StallWindow time.Duration
	// Signals are what should be read; all others stay Absent. Only what they need
	// has to be there.
	Signals []Signal
}

// cgroupRoot is where cgroups are mounted on the host.
const cgroupRoot = "/sys/fs/cgroup"

func (o *Options) setDefaults() {
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

// host returns where a path of the host is seen from here.
func (o *Options) host(path string) string { return filepath.Join("/", o.HostRoot, path) }

// ErrUnasked is why a signal is Absent that no threshold asks for.
var ErrUnasked = errors.New("no threshold asks for this signal")

// Node reads the node's signals. Files are kept open between two samples, so a
// node that has no file descriptor or memory left can still be read. Sample and
// Close are for one goroutine; DedicatedImageFS may be called from any.
type Node struct {
	options Options
	wanted  [SignalCount]bool
	closed  bool

	meminfo  *kernelFile // nil when no signal needs it
	root     *memoryCgroup
	kubepods *memoryCgroup
	stall    *stallSource
	noStall  error // why stall is nil although it was asked for
	pids     *pidSource
	nodefs   *probe
	imagefs  *probe // the same as nodefs where nobody has images, or asks for them

	// What DedicatedImageFS compares; set when a filesystem is asked for.
	device               func(path string) (uint64, error)
	kubeletDir, imageDir string
}

// Open prepares the reading of the signals that options ask for, and reads each of
// their sources once: what is missing now is a mistake in the set-up and reported
// in one sentence, where the same fault later makes a signal Unknown.
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
			_ = n.Close() // the first fault is the one to tell
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
	if !n.wants(MemoryAvailable) {
		return nil
	}
	n.meminfo = newKernelFile(n.options.host("/proc/meminfo"), meminfoMax)
	if n.options.MemoryAvailable == WorkingSet {
		root, err := findMemoryCgroup(n.options.host(cgroupRoot), "/")
		if err != nil {
			return fmt.Errorf("preparing %s: %w", MemoryAvailable, err)
		}
		n.root = root
	}
	if seen := n.memory(); seen.State == Unknown {
		return fmt.Errorf("preparing %s: %w", MemoryAvailable, seen.Err)
	}
	return nil
}

func (n *Node) openAllocatable(system) error {
	if !n.wants(AllocatableMemoryAvailable) || n.options.Kubepods == "" {
		return nil
	}
	var err error
	if n.kubepods, err = findMemoryCgroup(n.options.host(cgroupRoot), n.options.Kubepods); err == nil {
		_, err = n.kubepods.read()
	}
	if err != nil {
		return fmt.Errorf("preparing %s: %w", AllocatableMemoryAvailable, err)
	}
	return nil
}

// Sample reads the node. The time is the caller's, taken just before: the reading
// is never older than its time. A source that fails makes its signals Unknown and
// no others. Sample returns within about a tenth of a second, also while a
// filesystem does not answer.
func (n *Node) Sample(now time.Time) Sample {
	s := Sample{Time: now}
	for i := range s.Observations {
		s.Observations[i] = n.blank(Signal(i))
	}
	if n.closed {
		return s
	}
	n.startProbes()
	if n.wanted[MemoryAvailable] {
		s.Observations[MemoryAvailable] = n.memory()
	}
	if n.wanted[AllocatableMemoryAvailable] {
		s.Observations[AllocatableMemoryAvailable] = n.allocatable()
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

// blank is what is known of a signal before anything is read.
func (n *Node) blank(signal Signal) Observation {
	if !n.wanted[signal] {
		return absent(ErrUnasked)
	}
	return unknown(errClosed)
}

var errClosed = errors.New("the sampler is closed")

// Close lets go of the files. It waits a moment for filesystems that have not
// answered and names those that still do not: the kernel cannot be interrupted
// there, and the goroutine that asked ends when it answers. Sample reads nothing
// after Close.
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
