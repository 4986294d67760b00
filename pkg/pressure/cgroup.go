package pressure

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/containerd/cgroups/v3/cgroup1"
	stats1 "github.com/containerd/cgroups/v3/cgroup1/stats"
	"github.com/containerd/cgroups/v3/cgroup2"

	"github.com/evictd/evictd/internal/kernelfile"
)

// This file is the only one that knows containerd/cgroups. That library answers
// zero, and no error, for much that it could not read: on cgroup v2 a group that
// has gone is an empty struct, a single number that fails is 0, and on both
// versions a missing line of memory.stat is 0 and a negative number too. So every
// figure that is used is first confirmed to be in its file, and a group that uses
// nothing at all is refused.

// unlimitedAbove is the limit above which the kubelet takes a cgroup to have none
// (pkg/kubelet/stats/helper.go, isMemoryUnlimited); cgroup v1 writes
// 9223372036854771712 for "no limit".
const unlimitedAbove = 1 << 62

// memoryCgroup is one group of the hierarchy that accounts for memory.
type memoryCgroup struct {
	mount   string // of the cgroups; on v1 the hierarchy is the directory memory in it
	group   string // absolute within the hierarchy
	unified bool   // cgroup v2
	// rootV2 says that the group is the real root of cgroup v2, which has no
	// memory.current.
	rootV2 bool
	// needed are the files that figures are taken from, with what must be in them.
	needed []neededFile
}

// neededFile is a file that is confirmed before the library's figures count.
type neededFile struct {
	*kernelFile
	keys []string // of a memory.stat; none for a file that holds one number
}

// cgroupMemory is one reading, in bytes.
type cgroupMemory struct {
	// workingSet is the usage without inactive page cache, never negative.
	workingSet int64
	// limit is meant only when limited.
	limit   int64
	limited bool
}

// findMemoryCgroup returns the group below the cgroup mount. A mount with both
// versions (hybrid) accounts for memory on v1.
func findMemoryCgroup(mount, group string) (*memoryCgroup, error) {
	g := &memoryCgroup{mount: mount, group: filepath.Join("/", group)}
	_, unifiedErr := os.Stat(filepath.Join(mount, "cgroup.controllers"))
	_, memoryErr := os.Stat(filepath.Join(mount, "memory", "memory.stat"))
	switch {
	case unifiedErr == nil:
		g.unified = true
	case memoryErr == nil:
	default:
		return nil, fmt.Errorf("no cgroup accounts for memory below %s: neither cgroup.controllers (v2) nor memory/memory.stat (v1) is there: %w",
			mount, memoryErr)
	}
	if g.unified && g.group == "/" {
		_, err := os.Stat(filepath.Join(mount, "memory.current"))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, fmt.Errorf("looking for the root cgroup's memory.current: %w", err)
		}
		g.rootV2 = err != nil
	}
	g.need()
	return g, nil
}

// need lists the files that figures are taken from.
func (g *memoryCgroup) need() {
	dir := filepath.Join(g.mount, "memory", g.group)
	keys, numbers := []string{"total_inactive_file "}, []string{"memory.usage_in_bytes", "memory.limit_in_bytes"}
	if g.unified {
		dir = filepath.Join(g.mount, g.group)
		keys, numbers = []string{"inactive_file ", "anon ", "file "}, []string{"memory.current", "memory.max"}
		switch {
		case g.rootV2:
			numbers = nil
		case g.group == "/":
			numbers = numbers[:1] // the root of a namespace need not have a limit
		}
	}
	g.needed = []neededFile{{newKernelFile(filepath.Join(dir, "memory.stat"), statMax), keys}}
	for _, name := range numbers {
		g.needed = append(g.needed, neededFile{newKernelFile(filepath.Join(dir, name), numberMax), nil})
	}
}

// read returns what the group uses.
func (g *memoryCgroup) read() (cgroupMemory, error) {
	for _, f := range g.needed {
		if err := f.confirm(); err != nil {
			return cgroupMemory{}, fmt.Errorf("reading the memory of cgroup %s: %w", g.group, err)
		}
	}
	read := g.readV1
	if g.unified {
		read = g.readV2
	}
	memory, err := read()
	if err != nil {
		return cgroupMemory{}, fmt.Errorf("reading the memory of cgroup %s%s: %w", g.group, g.besides(), err)
	}
	return memory, nil
}

// besides names the files that containerd's library reads on v1 for figures that are not
// needed here, and does not name when it cannot.
func (g *memoryCgroup) besides() string {
	if g.unified {
		return ""
	}
	return " (which of memory.stat, memory.oom_control and memory.{usage_in_bytes,max_usage_in_bytes,failcnt,limit_in_bytes} it is, the library does not say)"
}

func (g *memoryCgroup) readV1() (cgroupMemory, error) {
	var metrics stats1.Metrics
	controller := cgroup1.NewMemory(g.mount, cgroup1.IgnoreModules("memsw", "kmem", "kmem.tcp"))
	if err := controller.Stat(g.group, &metrics); err != nil {
		return cgroupMemory{}, err
	}
	usage := metrics.GetMemory().GetUsage()
	return compute(usage.GetUsage(), metrics.GetMemory().GetTotalInactiveFile(), usage.GetLimit())
}

func (g *memoryCgroup) readV2() (cgroupMemory, error) {
	manager, err := cgroup2.Load(g.group, cgroup2.WithMountpoint(g.mount))
	if err != nil {
		return cgroupMemory{}, err
	}
	metrics, err := manager.StatFiltered(cgroup2.StatMemory)
	if err != nil {
		return cgroupMemory{}, err
	}
	memory := metrics.GetMemory()
	usage, limit := memory.GetUsage(), memory.GetUsageLimit()
	if g.rootV2 {
		// The kubelet's rule: opencontainers/cgroups fs2/memory.go, rootStatsFromMeminfo.
		usage = memory.GetAnon() + memory.GetFile()
	}
	if g.group == "/" {
		limit = unlimitedAbove + 1 // the caller takes MemTotal
	}
	return compute(usage, memory.GetInactiveFile(), limit)
}

// compute applies cAdvisor's rule (container/libcontainer/handler.go): the working
// set is the usage without inactive page cache, at least 0.
func compute(usage, inactiveFile, limit uint64) (cgroupMemory, error) {
	switch {
	case usage == 0:
		return cgroupMemory{}, errors.New("it uses 0 bytes, which is no reading")
	case usage > unlimitedAbove:
		return cgroupMemory{}, fmt.Errorf("usage %d: %w", usage, kernelfile.ErrOverflow)
	case limit == 0:
		return cgroupMemory{}, errors.New("its limit is 0, which is no reading")
	}
	read := cgroupMemory{workingSet: signed(usage - min(usage, inactiveFile))}
	if limit <= unlimitedAbove {
		read.limit, read.limited = signed(limit), true
	}
	return read, nil
}

// confirm makes sure that what is needed is in the file.
func (f *neededFile) confirm() error {
	content, err := f.read()
	if err != nil {
		return err
	}
	for _, key := range f.keys {
		if err == nil {
			_, err = kernelfile.Stat(content, key)
		}
	}
	unlimited := strings.HasSuffix(f.Path(), "memory.max") && string(content) == "max\n"
	if len(f.keys) == 0 && !unlimited {
		_, err = kernelfile.Number(content)
	}
	if err != nil {
		return fmt.Errorf("reading %s: %w", f.Path(), err)
	}
	return nil
}

func (g *memoryCgroup) close() {
	for _, f := range g.needed {
		f.Close()
	}
}
