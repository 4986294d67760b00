package usage

import (
	"errors"
	"fmt"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Detail holds figures of one pod's cgroup beyond [Pod], in bytes. Nil is none or unknown:
// the library that reads them returns zero for both, so no figure is zero.
type Detail struct {
	// Anonymous is memory that no file backs, excluding swapped memory. File is page cache,
	// and Shared the part of it that is tmpfs and shared memory. Of v1 only the first two are known.
	Anonymous *int64 `json:"anonymous,omitempty"`
	File      *int64 `json:"file,omitempty"`
	Shared    *int64 `json:"shared,omitempty"`
	// KernelStacks and Slab are parts of the kernel's memory for the pod, and Sockets is the buffers of
	// its network connections.
	KernelStacks *int64 `json:"kernel_stacks,omitempty"`
	Slab         *int64 `json:"slab,omitempty"`
	Sockets      *int64 `json:"sockets,omitempty"`
	// Swap is the swapped memory.
	Swap *int64 `json:"swap,omitempty"`
	// OOMKills is how many of its processes the OOM killer has killed.
	OOMKills *int64 `json:"oom_kills,omitempty"`
}

// Detail returns the detailed figures of a pod's cgroup. It opens several files and is not for the
// loop; it may be called from any goroutine. It returns an error and no detail where the pod has no
// cgroup, or its anonymous memory is not known: a pod that runs has some.
func (t *Tree) Detail(uid string) (*Detail, error) {
	group, err := t.group(uid)
	var d *Detail
	switch {
	case err != nil:
	case group == "":
		err = unix.ENOENT
	case t.hierarchy.Unified:
		d, err = detail2(t.hierarchy.Memory, group)
	default:
		d, err = detail1(filepath.Dir(t.hierarchy.Memory), group)
	}
	if err == nil && d.Anonymous == nil {
		err = errors.New("no anonymous memory, or it has gone")
	}
	if err != nil {
		return nil, fmt.Errorf("reading the detail of pod %s: %w", uid, err)
	}
	return d, nil
}
