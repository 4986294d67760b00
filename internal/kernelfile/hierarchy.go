package kernelfile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Hierarchy says where a node accounts for memory and tasks.
type Hierarchy struct {
	// Unified is cgroup v2.
	Unified bool
	// Memory is the directory of the memory hierarchy.
	Memory string
	// PIDs is that of the pids hierarchy; "" when it is not mounted, or not enabled.
	PIDs string
}

// HierarchyOf looks at a cgroup mount. One with both versions (hybrid) accounts for
// memory on v1.
func HierarchyOf(mount string) (Hierarchy, error) {
	controllers, err := os.ReadFile(filepath.Join(mount, "cgroup.controllers")) //nolint:gosec // the mount is the caller's
	switch {
	case err == nil && !slices.Contains(strings.Fields(string(controllers)), "memory"):
		return Hierarchy{}, fmt.Errorf("the cgroups at %s do not account for memory: its controllers are %q", mount, controllers)
	case err == nil && !slices.Contains(strings.Fields(string(controllers)), "pids"):
		return Hierarchy{Unified: true, Memory: mount}, nil
	case err == nil:
		return Hierarchy{Unified: true, Memory: mount, PIDs: mount}, nil
	case !errors.Is(err, os.ErrNotExist):
		return Hierarchy{}, fmt.Errorf("looking for cgroups: %w", err)
	}
	h := Hierarchy{Memory: filepath.Join(mount, "memory"), PIDs: filepath.Join(mount, "pids")}
	if _, err := os.Stat(filepath.Join(h.Memory, "memory.stat")); err != nil {
		return Hierarchy{}, fmt.Errorf("no cgroup accounts for memory below %s: neither cgroup.controllers (v2) nor memory/memory.stat (v1) is there: %w",
			mount, err)
	}
	if _, err := os.Stat(h.PIDs); err != nil {
		h.PIDs = ""
	}
	return h, nil
}
