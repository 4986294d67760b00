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
	// inactiveFile is the line of memory.stat with the page cache that the kernel would
	// reclaim first, in this group and all groups below it.
	inactiveFile string
	// usage is nil for the real root of cgroup v2, which has no memory.current.
	usage *kernelFile
	// limit is nil for a root of cgroup v2, real or of a namespace: the caller uses
	// MemTotal.
	limit *kernelFile
}

// cgroupMemory is one reading, in bytes.
type cgroupMemory struct {
	// workingSet is the usage without inactive page cache, never negative.
	workingSet int64
	// limit is valid only when limited.
	limit   int64
	limited bool
}

// findMemoryCgroup returns the group below the cgroup mount.
func findMemoryCgroup(mount, group string) (*memoryCgroup, error) {
	h, err := kernelfile.HierarchyOf(mount)
	if err != nil {
		return nil, err
	}
	group = filepath.Join("/", group)
	if h.Unified {
		return memoryCgroupV2(h.Memory, group)
	}
	return memoryCgroupV1(h.Memory, group), nil
}

func memoryCgroupV1(hierarchy, group string) *memoryCgroup {
	dir := filepath.Join(hierarchy, group)
	return &memoryCgroup{
		group:        group,
		stat:         newKernelFile(filepath.Join(dir, "memory.stat"), statMax),
		inactiveFile: "total_inactive_file ",
		usage:        newKernelFile(filepath.Join(dir, "memory.usage_in_bytes"), numberMax),
		limit:        newKernelFile(filepath.Join(dir, "memory.limit_in_bytes"), numberMax),
	}
}

func memoryCgroupV2(mount, group string) (*memoryCgroup, error) {
	dir := filepath.Join(mount, group)
	g := &memoryCgroup{
		group:        group,
		stat:         newKernelFile(filepath.Join(dir, "memory.stat"), statMax),
		inactiveFile: "inactive_file ",
		usage:        newKernelFile(filepath.Join(dir, "memory.current"), numberMax),
	}
	if group != "/" {
		g.limit = newKernelFile(filepath.Join(dir, "memory.max"), numberMax)
		return g, nil
	}
	switch _, err := os.Stat(g.usage.Path()); {
	case errors.Is(err, os.ErrNotExist):
		g.usage = nil
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
	inactiveFile, err := kernelfile.Stat(stat, g.inactiveFile)
	if err != nil {
		return cgroupMemory{}, fmt.Errorf("reading %s: %w", g.stat.Path(), err)
	}
	usage, err := g.readUsage(stat)
	if err != nil {
		return cgroupMemory{}, err
	}
	limit, err := readLimit(g.limit)
	if err != nil {
		return cgroupMemory{}, err
	}
	return compute(usage, inactiveFile, limit)
}

// readUsage returns the group's memory usage, page cache included. The real root of v2 has
// no such number; there the kubelet uses anonymous memory plus page cache
// (opencontainers/cgroups fs2/memory.go, rootStatsFromMeminfo).
func (g *memoryCgroup) readUsage(stat []byte) (int64, error) {
	if g.usage != nil {
		return g.usage.number()
	}
	anon, err := kernelfile.Stat(stat, "anon ")
	if err != nil {
		return 0, fmt.Errorf("reading %s: %w", g.stat.Path(), err)
	}
	file, err := kernelfile.Stat(stat, "file ")
	if err != nil {
		return 0, fmt.Errorf("reading %s: %w", g.stat.Path(), err)
	}
	return anon + min(file, math.MaxInt64-anon), nil
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

// compute applies cAdvisor's rule (container/libcontainer/handler.go): the working
// set is the usage without inactive page cache, at least 0.
func compute(usage, inactiveFile, limit int64) (cgroupMemory, error) {
	switch {
	case usage == 0:
		return cgroupMemory{}, errors.New("it uses 0 bytes, which is no reading")
	case usage > unlimitedAbove:
		return cgroupMemory{}, fmt.Errorf("usage %d: %w", usage, kernelfile.ErrOverflow)
	case limit == 0:
		return cgroupMemory{}, errors.New("its limit is 0, which is no reading")
	}
	read := cgroupMemory{workingSet: max(usage-inactiveFile, 0)}
	if limit <= unlimitedAbove {
		read.limit, read.limited = limit, true
	}
	return read, nil
}

func (g *memoryCgroup) close() {
	for _, f := range []*kernelFile{g.stat, g.usage, g.limit} {
		if f != nil {
			f.Close()
		}
	}
}
