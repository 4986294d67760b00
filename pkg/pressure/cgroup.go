package pressure

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"

	"github.com/evictd/evictd/internal/kernelfile"
)

// unlimitedAbove is the limit above which the kubelet takes a cgroup to have none
// (pkg/kubelet/stats/helper.go, isMemoryUnlimited); cgroup v1 writes
// 9223372036854771712 for "no limit".
const unlimitedAbove = 1 << 62

// memoryCgroup is one group of the memory hierarchy, with all groups below it. A missing file or
// line is an error, never 0.
type memoryCgroup struct {
	group      string // absolute within the hierarchy
	unified    bool   // cgroup v2
	definition MemoryDefinition

	stat, limit kernelfile.File
	usage       kernelfile.File // without a path it is anonymous memory and page cache
	kernel      kernelfile.File // kernel memory, which does not count; without a path it is what memory.stat says
}

// findMemoryCgroup returns the group below the cgroup mount. By the definition WorkingSet it uses
// its working set, which is cAdvisor's rule (container/libcontainer/handler.go), and by Kernel its usage
// without page cache and, on version 2, slabs that can be reclaimed. Version 1 does not say how much of its
// kernel memory is reclaimable, so none counts. The usage is always of now; memory.stat may be 2 s old.
func findMemoryCgroup(mount, group string, definition MemoryDefinition) (*memoryCgroup, error) {
	h, err := kernelfile.HierarchyOf(mount)
	if err != nil {
		return nil, err
	}
	g := &memoryCgroup{group: filepath.Join("/", group), unified: h.Unified, definition: definition}
	usage, limit := "memory.usage_in_bytes", "memory.limit_in_bytes"
	if h.Unified {
		usage, limit = "memory.current", "memory.max"
	}
	path := func(name string) string { return filepath.Join(h.Memory, g.group, name) }
	g.stat.Path, g.usage.Path, g.limit.Path = path("memory.stat"), path(usage), path(limit)
	switch {
	case definition != WorkingSet && !h.Unified:
		g.kernel.Path = path("memory.kmem.usage_in_bytes")
	case definition == WorkingSet && h.Unified && g.group == "/":
		// The real root has no memory.current, unlike that of a namespace. There the kubelet takes anonymous
		// memory and page cache for its usage (opencontainers/cgroups fs2/memory.go, rootStatsFromMeminfo).
		if _, err = os.Stat(g.usage.Path); errors.Is(err, os.ErrNotExist) {
			g.usage.Path, err = "", nil
		}
	}
	if err != nil {
		return nil, fmt.Errorf("looking for the root cgroup's memory.current: %w", err)
	}
	return g, nil
}

// used returns what the group uses in bytes, never negative. Each of its files is read into the buffer.
func (g *memoryCgroup) used(buffer []byte) (int64, error) {
	stat, err := kernelfile.Parse(&g.stat, buffer, func(content []byte) (kernelfile.MemoryStat, error) {
		return kernelfile.ParseMemoryStat(content, g.unified)
	})
	usage, kernel := stat.Anonymous+stat.PageCache, stat.SlabReclaimable
	if err == nil && g.usage.Path != "" {
		usage, err = kernelfile.Parse(&g.usage, buffer, kernelfile.Number)
	}
	if err == nil && g.kernel.Path != "" {
		kernel, err = kernelfile.Parse(&g.kernel, buffer, kernelfile.Number)
	}
	if err == nil && usage == 0 {
		err = errors.New("it uses 0 bytes, which is no reading")
	}
	if err != nil {
		return 0, fmt.Errorf("reading the memory of cgroup %s: %w", g.group, err)
	}
	reclaimable := stat.InactiveFile
	if g.definition != WorkingSet {
		reclaimable += stat.ActiveFile + kernel
	}
	return max(usage-reclaimable, 0), nil
}

// limited returns the group's limit in bytes; above unlimitedAbove where there is none.
func (g *memoryCgroup) limited(buffer []byte) (int64, error) {
	return kernelfile.Parse(&g.limit, buffer, func(content []byte) (int64, error) {
		if g.unified && string(content) == "max\n" {
			return math.MaxInt64, nil
		}
		limit, err := kernelfile.Number(content)
		if err == nil && limit == 0 {
			err = errors.New("the limit is 0, which is no reading")
		}
		return limit, err
	})
}
