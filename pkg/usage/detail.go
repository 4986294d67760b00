package usage

import (
	"fmt"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/internal/kernelfile"
)

// Detail holds figures of one pod's cgroup beyond [Pod], in bytes. Nil is none or unknown:
// the library that reads most of them returns zero for both, so no figure is zero.
type Detail struct {
	// Anonymous is memory that no file backs, excluding swapped memory. File is page cache,
	// and Shared the part of it that is tmpfs and shared memory.
	Anonymous *int64 `json:"anonymous,omitempty"`
	File      *int64 `json:"file,omitempty"`
	Shared    *int64 `json:"shared,omitempty"`
	// Kernel is the kernel's memory for the pod without its sockets; v2 reports it since
	// Linux 5.18. The next three are parts of it, and Sockets is the buffers of its network
	// connections. None of them is known of v1.
	Kernel       *int64 `json:"kernel,omitempty"`
	KernelStacks *int64 `json:"kernel_stacks,omitempty"`
	PageTables   *int64 `json:"page_tables,omitempty"`
	Slab         *int64 `json:"slab,omitempty"`
	Sockets      *int64 `json:"sockets,omitempty"`
	// Swap is the swapped memory.
	Swap *int64 `json:"swap,omitempty"`
	// OOMKills is how many of its processes the OOM killer has killed, on v2: v1 keeps no count
	// of a container that has ended.
	OOMKills *int64 `json:"oom_kills,omitempty"`
}

// Detail returns the detailed figures of a pod's cgroup. It opens several files and is not for the
// loop; it may be called from any goroutine. It returns an error and no detail where a required file
// cannot be read, or the pod has no cgroup.
func (t *Tree) Detail(uid string) (*Detail, error) {
	group, err := t.group(uid)
	if err == nil && group == "" {
		err = unix.ENOENT
	}
	var d *Detail
	if err == nil {
		d, err = t.detail(group)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the detail of pod %s: %w", uid, err)
	}
	return d, nil
}

// detail reads a group with the library, and then the figures that the library omits. A
// group that was removed meanwhile fails the second step.
func (t *Tree) detail(group string) (d *Detail, err error) {
	left := map[string]**int64{}
	if t.hierarchy.Unified {
		if d, err = detail2(t.hierarchy.Memory, group); err == nil {
			left["kernel "], left["pagetables "] = &d.Kernel, &d.PageTables
		}
	} else if d, err = detail1(filepath.Dir(t.hierarchy.Memory), group); err == nil {
		left["total_shmem "], left["total_swap "] = &d.Shared, &d.Swap
	}
	if err != nil {
		return nil, err
	}
	stat := kernelfile.New(filepath.Join(t.hierarchy.Memory, group, "memory.stat"))
	defer stat.Close()
	content, err := stat.Read(make([]byte, statMax))
	for key, figure := range left {
		if n, fault := kernelfile.Stat(content, key); fault == nil && n > 0 { // no such line: unknown
			*figure = &n
		}
	}
	return d, err
}
