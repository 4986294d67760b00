package pressure

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/evictd/evictd/internal/kernelfile"
)

// MemoryDefinition says how memory.available and allocatableMemory.available are computed, in the
// configuration's words. The zero value means Kernel.
type MemoryDefinition string

// The definitions.
const (
	// Kernel is MemAvailable of /proc/meminfo: memory that is available without swapping. It
	// includes page cache and reclaimable slab, but not huge pages and watermarks. Of the limit
	// of the pods' cgroup it is what the kernel could give them: see findMemoryCgroup.
	Kernel MemoryDefinition = "kernel"
	// WorkingSet is the kubelet's definition since Kubernetes 1.37: MemTotal minus the
	// working set of the root cgroup and minus huge pages, used or not, at least 0. It
	// counts active page cache as used. Earlier kubelets count huge pages as available.
	WorkingSet MemoryDefinition = "workingSet"
)

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
	// FilesystemWait is how long a sample waits for filesystems, whose signals are unknown
	// then; 0 is 100 ms, for a loop that a dead mount must not hold up. [Open] waits for at
	// least 10 s.
	FilesystemWait time.Duration
	// StallFull says that memory.stall counts the time in which every task that could have run
	// waited for memory, and not at least one (Documentation/accounting/psi.rst of Linux).
	// StallWindow is its window; 0 is 2 s.
	StallFull   bool
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

// host returns the path at which evictd sees a path of the host.
func (o *Options) host(path string) string { return filepath.Join("/", o.HostRoot, path) }

// ErrUnasked is why a signal is Absent that no threshold uses.
var ErrUnasked = errors.New("no threshold asks for this signal")

// Node reads the node's signals. It keeps files open between samples, so that a node without
// free file descriptors or memory can still be read. It is for one goroutine.
type Node struct {
	options Options
	sys     system
	// readers read the signals that were requested, but for those of filesystems.
	readers [SignalCount]func(now time.Time) Observation
	files   []*kernelfile.File // that the readers use
	buffer  []byte             // for one file at a time

	meminfo  meminfo // of the sample that is being taken
	zoneinfo bytes.Buffer

	probes  []*probe // of nodefs and imagefs; none where no signal is a filesystem's
	nodefs  *probe
	imagefs *probe // the same as nodefs where there are no images, or no image signal
}

// fileMax is more than any file has that is read; one that fills it is not the expected one.
const fileMax = 64 << 10

// Open prepares to read the requested signals, and reads each of their sources once. What is
// missing then is a configuration error and fails Open with one sentence; the same fault
// later makes a signal Unknown.
func Open(options Options) (*Node, error) {
	return open(options, kernel())
}

// open is Open with the system calls that a test replaces.
func open(options Options, sys system) (*Node, error) {
	options.FilesystemWait = cmp.Or(options.FilesystemWait, probeWait)
	options.StallWindow = cmp.Or(options.StallWindow, 2*time.Second)
	n := &Node{options: options, sys: sys, buffer: make([]byte, fileMax)}
	if err := n.prepare(); err != nil {
		_ = n.Close() // the first fault is the one to report
		return nil, err
	}
	return n, nil
}

// prepare finds the sources and reads each once. That of memory.stall, which needs the time, comes last.
func (n *Node) prepare() error {
	for _, find := range []func() error{n.findMemory, n.findFilesystems, n.findPIDs} {
		if err := find(); err != nil {
			return err
		}
	}
	seen := n.sample(time.Time{}, max(openWait, n.options.FilesystemWait))
	for _, signal := range n.options.Signals {
		if o := seen.Of(signal); o.State == Unknown {
			return fmt.Errorf("preparing %s: %w", signal, o.Err)
		}
	}
	return n.findStall()
}

func (n *Node) wants(signals ...Signal) bool {
	return slices.ContainsFunc(signals, func(s Signal) bool { return slices.Contains(n.options.Signals, s) })
}

// file returns a file of the host, which stays open until Close.
func (n *Node) file(path string) *kernelfile.File {
	file := &kernelfile.File{Path: n.options.host(path)}
	n.files = append(n.files, file)
	return file
}

// Sample reads the node. The caller takes now just before: the reading is never older than
// its time. A source that fails makes only its own signals Unknown. Sample returns
// within about Options.FilesystemWait, even while a filesystem does not respond.
func (n *Node) Sample(now time.Time) Sample { return n.sample(now, n.options.FilesystemWait) }

func (n *Node) sample(now time.Time, wait time.Duration) Sample {
	s := Sample{Time: now}
	for _, p := range n.probes {
		p.start()
	}
	n.meminfo = meminfo{}
	for signal, read := range n.readers {
		if s.Observations[signal] = absent(ErrUnasked); read != nil {
			s.Observations[signal] = read(now)
		}
	}
	n.observeFilesystems(&s, wait)
	return s
}

// Close closes the files, which cannot fail. It does not wait for a filesystem that has not responded: the
// kernel call cannot be interrupted, and its goroutine ends when the call returns. Do not call Sample
// after Close.
func (n *Node) Close() error {
	for _, file := range n.files {
		file.Close()
	}
	return nil
}

func unknown(err error) Observation { return Observation{State: Unknown, Err: err} }

func absent(err error) Observation { return Observation{State: Absent, Err: err} }
