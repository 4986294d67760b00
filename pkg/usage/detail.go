package usage

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Detail holds figures of one pod's cgroup beyond [Pod], by their names, in bytes. One that is missing is none
// or unknown: the library that reads them returns zero for both, so no figure is zero.
//
//   - anonymous is memory that no file backs, excluding swapped memory. file is page cache, and shared the
//     part of it that is tmpfs and shared memory. Of v1 only the first two are known.
//   - kernel_stacks and slab are parts of the kernel's memory for the pod, and sockets is the buffers of its
//     network connections.
//   - swap is the swapped memory.
//   - oom_kills is how many of its processes the OOM killer has killed.
type Detail map[string]uint64

// Detail returns the detailed figures of a pod's cgroup. It opens several files and is not for the
// loop; it may be called from any goroutine. It returns an error and no detail where the pod has no
// cgroup, or its anonymous memory is not known: a pod that runs has some.
func (t *Tree) Detail(uid string) (d Detail, err error) {
	defer func() {
		if fault := recover(); fault != nil { // the library takes fields of a line that may not be there
			d, err = nil, fmt.Errorf("reading the detail of pod %s: a line is too short: %v", uid, fault)
		}
	}()
	group, err := t.group(uid)
	switch {
	case err != nil:
	case group == "":
		err = unix.ENOENT
	case t.hierarchy.Unified:
		d, err = detail2(t.hierarchy.Memory, group)
	default:
		d, err = detail1(filepath.Dir(t.hierarchy.Memory), group)
	}
	maps.DeleteFunc(d, func(_ string, n uint64) bool { return n == 0 || n > math.MaxInt64 }) // none has so much
	if err == nil && d["anonymous"] == 0 {
		err = errors.New("no anonymous memory, or it has gone")
	}
	if err != nil {
		return nil, fmt.Errorf("reading the detail of pod %s: %w", uid, err)
	}
	return d, nil
}
