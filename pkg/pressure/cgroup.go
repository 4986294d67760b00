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

// memoryCgroup is one group of the memory hierarchy, with the files that are read from it. A
// missing file or line is an error, never 0.
type memoryCgroup struct {
	group string // absolute within the hierarchy
	stat  *kernelFile
	// usage is nil where the lines of memory.stat in uses are used in its place.
	usage *kernelFile
	// uses and reclaimable are lines of memory.stat, of this group and all groups below it:
	// what is used, and what of the usage does not count.
	uses, reclaimable []string
	// limit is nil for a root of cgroup v2, real or of a namespace: the caller uses
	// MemTotal.
	limit *kernelFile
}

// cgroupMemory is one reading, in bytes.
type cgroupMemory struct {
	// used is the usage without what is reclaimable, never negative.
	used int64
	// limit is above unlimitedAbove where there is none.
	limit int64
}

// findMemoryCgroup returns the group below the cgroup mount. By the definition WorkingSet it uses
// its working set, and by Kernel what cannot be reclaimed: anonymous and shared memory and, on
// version 2, kernel memory. Version 1 does not say how much of its kernel memory is reclaimable.
func findMemoryCgroup(mount, group string, definition MemoryDefinition) (*memoryCgroup, error) {
	h, err := kernelfile.HierarchyOf(mount)
	if err != nil {
		return nil, err
	}
	group = filepath.Join("/", group)
	if h.Unified {
		return memoryCgroupV2(h.Memory, group, definition)
	}
	return memoryCgroupV1(h.Memory, group, definition), nil
}

func memoryCgroupV1(hierarchy, group string, definition MemoryDefinition) *memoryCgroup {
	dir := filepath.Join(hierarchy, group)
	g := &memoryCgroup{
		group: group,
		stat:  newKernelFile(filepath.Join(dir, "memory.stat"), statMax),
		limit: newKernelFile(filepath.Join(dir, "memory.limit_in_bytes"), numberMax),
	}
	if definition == Kernel {
		g.uses = []string{"total_rss ", "total_shmem "}
		return g
	}
	g.usage = newKernelFile(filepath.Join(dir, "memory.usage_in_bytes"), numberMax)
	g.reclaimable = []string{"total_inactive_file "}
	return g
}

func memoryCgroupV2(mount, group string, definition MemoryDefinition) (*memoryCgroup, error) {
	dir := filepath.Join(mount, group)
	g := &memoryCgroup{
		group:       group,
		stat:        newKernelFile(filepath.Join(dir, "memory.stat"), statMax),
		reclaimable: []string{"inactive_file "},
		usage:       newKernelFile(filepath.Join(dir, "memory.current"), numberMax),
	}
	if definition == Kernel {
		g.reclaimable = append(g.reclaimable, "active_file ", "slab_reclaimable ")
	}
	if group != "/" {
		g.limit = newKernelFile(filepath.Join(dir, "memory.max"), numberMax)
		return g, nil
	}
	switch _, err := os.Stat(g.usage.Path()); {
	case errors.Is(err, os.ErrNotExist):
		// The real root has no such number; there the kubelet uses anonymous memory plus page
		// cache (opencontainers/cgroups fs2/memory.go, rootStatsFromMeminfo).
		g.usage, g.uses = nil, []string{"anon ", "file "}
	case err != nil:
		return nil, fmt.Errorf("looking for the root cgroup's memory.current: %w", err)
	}
	return g, nil
}

// read returns what the group uses.
func (g *memoryCgroup) read() (cgroupMemory, error) {
	memory, err := g.readFiles()
	if err != nil {
		return cgroupMemory{}, fmt.Errorf("reading the memory of cgroup %s: %w", g.group, err)
	}
	return memory, nil
}

func (g *memoryCgroup) readFiles() (cgroupMemory, error) {
	stat, err := g.stat.read()
	if err != nil {
		return cgroupMemory{}, err
	}
	reclaimable, err := g.sum(stat, g.reclaimable)
	if err != nil {
		return cgroupMemory{}, err
	}
	usage, err := g.readUsage(stat)
	if err != nil {
		return cgroupMemory{}, err
	}
	limit, err := readLimit(g.limit)
	if err != nil {
		return cgroupMemory{}, err
	}
	return compute(usage, reclaimable, limit)
}

// readUsage returns the group's memory usage, page cache included but by version 1 and Kernel.
func (g *memoryCgroup) readUsage(stat []byte) (int64, error) {
	if g.usage != nil {
		return g.usage.number()
	}
	return g.sum(stat, g.uses)
}

// sum adds up lines of memory.stat.
func (g *memoryCgroup) sum(stat []byte, lines []string) (sum int64, err error) {
	for _, line := range lines {
		bytes, err := kernelfile.Stat(stat, line)
		if err != nil {
			return 0, fmt.Errorf("reading %s: %w", g.stat.Path(), err)
		}
		sum += min(bytes, math.MaxInt64-sum)
	}
	return sum, nil
}

// readLimit returns a limit above unlimitedAbove where there is none: no file, "max" in
// memory.max, or the number that cgroup v1 writes for no limit.
func readLimit(f *kernelFile) (int64, error) {
	if f == nil {
		return math.MaxInt64, nil
	}
	content, err := f.read()
	switch {
	case err != nil:
		return 0, err
	case filepath.Base(f.Path()) == "memory.max" && string(content) == "max\n":
		return math.MaxInt64, nil
	}
	n, err := kernelfile.Number(content)
	if err != nil {
		return 0, fmt.Errorf("reading %s: %w", f.Path(), err)
	}
	return n, nil
}

// compute applies cAdvisor's rule for the working set (container/libcontainer/handler.go): the
// usage without what is reclaimable, at least 0.
func compute(usage, reclaimable, limit int64) (cgroupMemory, error) {
	switch {
	case usage == 0:
		return cgroupMemory{}, errors.New("it uses 0 bytes, which is no reading")
	case usage > unlimitedAbove:
		return cgroupMemory{}, fmt.Errorf("usage %d: %w", usage, kernelfile.ErrOverflow)
	case limit == 0:
		return cgroupMemory{}, errors.New("its limit is 0, which is no reading")
	}
	return cgroupMemory{used: max(usage-reclaimable, 0), limit: limit}, nil
}

func (g *memoryCgroup) close() {
	for _, f := range []*kernelFile{g.stat, g.usage, g.limit} {
		if f != nil {
			f.Close()
		}
	}
}
