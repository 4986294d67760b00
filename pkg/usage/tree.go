package usage

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/internal/filetree"
	"github.com/evictd/evictd/internal/kernelfile"
)

// Pod is what one pod uses, read from its cgroup, which includes its containers.
type Pod struct {
	// UID is the one in the cgroup's name; see the package's limits on static pods.
	UID string `json:"-"`
	// Used is all memory that is charged to the pod, page cache too, in bytes.
	Used int64 `json:"-"`
	// Earlier says that all but Used is of an earlier reading, which stands in.
	Earlier bool `json:"-"`
	// WorkingSet is the usage without inactive page cache, in bytes, never negative. The
	// kubelet ranks by it (cAdvisor's container/libcontainer/handler.go).
	WorkingSet int64 `json:"workingSet"`
	// Anonymous is the memory that no file backs, excluding tmpfs and swapped memory, in
	// bytes: total_rss on cgroup v1, anon on v2.
	Anonymous int64 `json:"anonymous"`
	// Shared is tmpfs (a memory-backed emptyDir too) and shared memory, in bytes.
	Shared int64 `json:"shared"`
	// Kernel is the kernel's memory for the pod that cannot be reclaimed while it runs (page
	// tables, stacks, slabs in use), in bytes: kernel minus slab_reclaimable on cgroup v2.
	// It is valid only with KernelKnown: cgroup v1 does not report it, nor does Linux before
	// 5.18.
	Kernel      int64 `json:"kernel,omitempty"`
	KernelKnown bool  `json:"kernelKnown,omitempty"`
	// Tasks counts processes and threads. It is valid only with TasksKnown: the pids
	// controller may be missing.
	Tasks      int64 `json:"tasks,omitempty"`
	TasksKnown bool  `json:"tasksKnown,omitempty"`
	// Unused says that the cgroup exists and uses no memory. A cgroup with a process in it
	// always uses some, so its processes have not started yet or have ended. All its memory
	// figures are then zero, which is what its end reclaims, but not a measure of the pod's
	// usage.
	Unused bool `json:"unused,omitempty"`
}

// StandIn returns, by what is charged to a pod, which is one small file, an earlier reading that stands in for the rest,
// which takes ten times as long to read; false where there is none. Nil has none for any pod.
type StandIn func(uid string, used int64) (earlier Pod, stands bool)

// Reclaim returns how much the pod's end adds to the kernel's MemAvailable, in bytes:
// anonymous and shared memory, and kernel memory where it is known. Page cache already
// counts as available.
func (p *Pod) Reclaim() int64 {
	sum := p.Anonymous + p.Shared
	if p.KernelKnown {
		sum += p.Kernel
	}
	return sum
}

// UnreadError says which pods exist but could not be read. The readings of the others are
// returned with it.
type UnreadError struct {
	// Pods are the UIDs of pods whose cgroups exist but could not be read; nil when there
	// are none.
	Pods []string
	// ListingFailed says that a directory of pods could not be listed: pods that were
	// created since the previous listing are missing, also from Pods.
	ListingFailed bool
	// Faults has one fault for each of Pods and for each such directory, with the name of
	// its file.
	Faults []error
}

// Error returns the first fault and the number of all.
func (u *UnreadError) Error() string {
	if len(u.Faults) == 1 {
		return u.Faults[0].Error()
	}
	return fmt.Sprintf("%s (and %d more that could not be read)", u.Faults[0], len(u.Faults)-1)
}

// Unwrap returns every fault, for errors.Is.
func (u *UnreadError) Unwrap() []error { return u.Faults }

// Buffer sizes. A memory.stat has 1,000 to 3,000 bytes; a file that fills its buffer is not
// the expected one.
const (
	statMax    = 64 << 10
	listingMax = 32 << 10
)

// podFileCount is how many files a pod has that a Tree reads.
const podFileCount = 3

// Tree reads the cgroups below one kubepods cgroup. It keeps the files of pods open where these are no
// more than half of the files that the process may open, so that some are left for all else. Otherwise
// they are opened for each reading. Collect and Close are for one goroutine;
// Present and Detail may be called from any.
type Tree struct {
	hierarchy kernelfile.Hierarchy
	kubepods  string // with a leading slash
	classes   [3]class
	content   []byte // of a file
	listing   []byte // of a directory
	most      uint64 // pods whose files may be kept open
}

// podFiles are the files of one pod.
type podFiles struct {
	uid               string
	dir               string // in the memory hierarchy
	stat, usage, pids kernelfile.File
}

// Open prepares to read the pods below a kubepods cgroup, which is relative to the cgroup
// mount and must exist.
func Open(mount, kubepods string) (*Tree, error) {
	h, err := kernelfile.HierarchyOf(mount)
	if err != nil {
		return nil, err
	}
	var files unix.Rlimit // the hard limit: Go raises the soft one when a program starts
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err != nil {
		return nil, fmt.Errorf("reading the limit of open files: %w", err)
	}
	t := &Tree{
		hierarchy: h,
		most:      files.Cur / 2 / podFileCount,
		kubepods:  filepath.Join("/", kubepods),
		content:   make([]byte, statMax),
		listing:   make([]byte, listingMax),
	}
	t.classes = classesOf(t.kubepods)
	for i := range t.classes {
		c := &t.classes[i]
		c.path, c.pods = filepath.Join(t.dir(), c.dir), map[string]*podFiles{}
	}
	if err := t.check(); err != nil {
		return nil, err
	}
	return t, nil
}

// dir returns the directory of kubepods in the memory hierarchy.
func (t *Tree) dir() string { return filepath.Join(t.hierarchy.Memory, t.kubepods) }

// check makes sure that kubepods exists and is a directory.
func (t *Tree) check() error {
	if _, err := os.Stat(t.dir() + "/."); err != nil {
		return fmt.Errorf("looking for the kubepods cgroup: %w", err)
	}
	return nil
}

// Collect appends each pod's usage to into[:0], in no particular order; a caller that passes
// the slice back makes Collect allocate nothing for a known pod. Pods whose cgroup was
// removed meanwhile are left out; an existing one that uses nothing is marked as unused.
// Pods that exist but could not be read are left out too and named by an [UnreadError], with
// which the others are still returned. That includes the known pods of a directory that
// cannot be listed. Any other error comes without pods.
func (t *Tree) Collect(into []Pod, standIn StandIn) ([]Pod, error) {
	into = into[:0]
	err := t.each(func(p *podFiles) error {
		pod, err := t.readPod(p, standIn)
		if pods := len(t.classes[0].pods) + len(t.classes[1].pods) + len(t.classes[2].pods); uint64(pods) > t.most {
			p.close()
		}
		if err == nil {
			into = append(into, pod)
		}
		return err
	})
	return into, err
}

// each lists the pods and reads each of them. That one was removed its reading says, also from a file that
// is open: the kernel answers ENODEV, with both versions of cgroups.
func (t *Tree) each(read func(p *podFiles) error) error {
	var faults UnreadError
	for i := range t.classes {
		c := &t.classes[i]
		if err := t.see(c, &faults); err != nil {
			return err
		}
		for name, p := range c.pods {
			switch err := read(p); {
			case err == nil:
			case p.gone(err):
				p.close()
				delete(c.pods, name)
			default:
				faults.Pods, faults.Faults = append(faults.Pods, p.uid), append(faults.Faults, err)
			}
		}
	}
	if len(faults.Faults) == 0 {
		return nil
	}
	unread := faults // a copy: so only a fault allocates
	return &unread
}

// see lists the pods of a class. An error says that there is no kubepods.
func (t *Tree) see(c *class, faults *UnreadError) error {
	fd, err := unix.Open(c.path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err == nil {
		err = t.list(c, fd)
		_ = unix.Close(fd) // nothing was written
	}
	if err == nil || c.dir != "" && errors.Is(err, unix.ENOENT) { // the kubelet makes a class when it needs it
		return nil
	}
	err = fmt.Errorf("listing the pods: reading %s: %w", c.path, err)
	if c.dir == "" && (errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR)) {
		return err
	}
	faults.ListingFailed, faults.Faults = true, append(faults.Faults, err) // the open files can still be read
	return nil
}

func (t *Tree) readPod(p *podFiles, standIn StandIn) (Pod, error) {
	usage, err := kernelfile.Parse(&p.usage, t.content, kernelfile.Number)
	if err != nil {
		return Pod{}, err
	}
	if standIn != nil {
		if pod, earlier := standIn(p.uid, usage); earlier {
			pod.Used, pod.Earlier = usage, true
			return pod, nil
		}
	}
	stat, err := t.memory(p, usage)
	if err != nil {
		return Pod{}, err
	}
	pod := Pod{UID: p.uid, Used: usage, KernelKnown: stat.KernelKnown, Unused: usage == 0}
	if !pod.Unused { // memory.stat may be older
		pod.WorkingSet, pod.Anonymous, pod.Shared = max(0, usage-stat.InactiveFile), stat.Anonymous, stat.Shared
		pod.Kernel = max(0, stat.Kernel-stat.SlabReclaimable) // the two are added up at different moments
	}
	if t.hierarchy.PIDs == "" {
		return pod, nil
	}
	pod.Tasks, err = kernelfile.Parse(&p.pids, t.content, kernelfile.Number)
	switch {
	case err == nil:
		pod.TasksKnown = true
	case !missing(err):
		return Pod{}, err
	}
	return pod, nil
}

// gone reports whether an error means that the pod's cgroup was removed. The kernel returns
// ENODEV for a file whose cgroup is being removed. ENOENT counts only when the directory,
// and not just the file, is missing.
func (p *podFiles) gone(err error) bool {
	if errors.Is(err, unix.ENOENT) {
		_, err = os.Stat(p.dir)
	}
	return missing(err)
}

func missing(err error) bool { return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENODEV) }

// list records the directories that are a pod's. A filesystem may not report types; something else with
// a pod's name fails when it is read.
func (t *Tree) list(c *class, dir int) error {
	for {
		size, err := unix.ReadDirent(dir, t.listing)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || size == 0 {
			return err
		}
		for listing := t.listing[:size]; len(listing) > 0; {
			name, kind, rest, err := filetree.NextEntry(listing)
			if err != nil {
				return err
			}
			listing, name = rest, name[:len(name)-1]
			if c.pods[string(name)] == nil && c.holds(name) && (kind == unix.DT_DIR || kind == unix.DT_UNKNOWN) {
				c.pods[string(name)] = t.newPod(c, string(name))
			}
		}
	}
}

func (t *Tree) newPod(c *class, name string) *podFiles {
	usage := "memory.usage_in_bytes"
	if t.hierarchy.Unified {
		usage = "memory.current"
	}
	below := filepath.Join(t.kubepods, c.dir, name)
	dir := filepath.Join(t.hierarchy.Memory, below)
	return &podFiles{
		uid:   c.uid(name),
		dir:   dir,
		stat:  kernelfile.File{Path: filepath.Join(dir, "memory.stat")},
		usage: kernelfile.File{Path: filepath.Join(dir, usage)},
		pids:  kernelfile.File{Path: filepath.Join(t.hierarchy.PIDs, below, "pids.current")},
	}
}

func (p *podFiles) close() {
	p.stat.Close()
	p.usage.Close()
	p.pids.Close()
}

// Present reports whether the pod's cgroup still exists: a force-deleted pod is gone in the
// API server while its processes may still run. An error means that this is unknown.
func (t *Tree) Present(uid string) (bool, error) {
	group, err := t.group(uid)
	return group != "", err
}

// group returns the pod's cgroup, with a leading slash; "" where there is none.
func (t *Tree) group(uid string) (string, error) {
	if uid == "" || strings.ContainsAny(uid, "/\x00") {
		return "", fmt.Errorf("looking for the pod's cgroup: %q is no UID", uid)
	}
	if err := t.check(); err != nil {
		return "", err
	}
	for _, c := range t.classes {
		group := filepath.Join(t.kubepods, c.dir, c.name(uid))
		_, err := os.Stat(filepath.Join(t.hierarchy.Memory, group))
		switch {
		case err == nil:
			return group, nil
		case !errors.Is(err, os.ErrNotExist):
			return "", fmt.Errorf("looking for the pod's cgroup: %w", err)
		}
	}
	return "", nil
}

// Close closes all files, which cannot fail. Collect opens them again.
func (t *Tree) Close() error {
	for i := range t.classes {
		for _, p := range t.classes[i].pods {
			p.close()
		}
	}
	return nil
}
