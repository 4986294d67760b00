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
	group   string // absolute within the hierarchy
	unified bool   // cgroup v2

	stat, usage, limit kernelfile.File
	kernel             *kernelfile.File // kernel memory, which does not count; nil where memory.stat says it
	// uses are the figures of memory.stat that are used in place of the file usage; none where that
	// counts. Reclaimable is what does not count.
	uses, reclaimable []kernelfile.Figure
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
	g := &memoryCgroup{group: filepath.Join("/", group), unified: h.Unified, reclaimable: []kernelfile.Figure{kernelfile.InactiveFile}}
	usage, limit := "memory.usage_in_bytes", "memory.limit_in_bytes"
	if h.Unified {
		usage, limit = "memory.current", "memory.max"
	}
	path := func(name string) string { return filepath.Join(h.Memory, g.group, name) }
	g.stat.Path, g.usage.Path, g.limit.Path = path("memory.stat"), path(usage), path(limit)
	switch {
	case definition != WorkingSet && h.Unified:
		g.reclaimable = append(g.reclaimable, kernelfile.ActiveFile, kernelfile.SlabReclaimable)
	case definition != WorkingSet:
		g.kernel, g.reclaimable = &kernelfile.File{Path: path("memory.kmem.usage_in_bytes")}, append(g.reclaimable, kernelfile.ActiveFile)
	case h.Unified && g.group == "/":
		// The real root has no memory.current, unlike that of a namespace. There the kubelet takes anonymous
		// memory and page cache for its usage (opencontainers/cgroups fs2/memory.go, rootStatsFromMeminfo).
		if _, err = os.Stat(g.usage.Path); errors.Is(err, os.ErrNotExist) {
			g.uses, err = []kernelfile.Figure{kernelfile.Anonymous, kernelfile.PageCache}, nil
		}
	}
	if err != nil {
		return nil, fmt.Errorf("looking for the root cgroup's memory.current: %w", err)
	}
	return g, nil
}

// used returns what the group uses in bytes, never negative. Each of its files is read into the buffer.
func (g *memoryCgroup) used(buffer []byte) (int64, error) {
	sums, err := kernelfile.Parse(&g.stat, buffer, func(content []byte) (sums [2]int64, err error) {
		stat, err := kernelfile.ParseMemoryStat(content, g.unified)
		if err == nil {
			sums[0], err = stat.Sum(g.uses...)
		}
		if err == nil {
			sums[1], err = stat.Sum(g.reclaimable...)
		}
		return sums, err
	})
	usage, reclaimable, kernel := sums[0], sums[1], int64(0)
	if err == nil && len(g.uses) == 0 {
		usage, err = kernelfile.Parse(&g.usage, buffer, kernelfile.Number)
	}
	if err == nil && g.kernel != nil {
		kernel, err = kernelfile.Parse(g.kernel, buffer, kernelfile.Number)
	}
	if err == nil && usage == 0 {
		err = errors.New("it uses 0 bytes, which is no reading")
	}
	if err != nil {
		return 0, fmt.Errorf("reading the memory of cgroup %s: %w", g.group, err)
	}
	return max(usage-reclaimable-kernel, 0), nil
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
