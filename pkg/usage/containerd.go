package usage

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"

	"github.com/containerd/cgroups/v3/cgroup1"
	stats1 "github.com/containerd/cgroups/v3/cgroup1/stats"
	"github.com/containerd/cgroups/v3/cgroup2"
	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/internal/kernelfile"
)

// The only use of containerd/cgroups, v3.1.3, which docs/adr/0016 keeps behind this file: it
// does not report a removed group, and returns zeros for what it cannot read.

// memoryEvents returns an inotify descriptor for the memory events of a group of cgroup v2
// and of the groups below it. The library's EventChan is not used: it takes no context, and
// holds a goroutine until the group ends.
func memoryEvents(mount, group string) (fd int, err error) {
	manager, err := cgroup2.Load(group, cgroup2.WithMountpoint(mount))
	if err != nil {
		return 0, err
	}
	fd, _, err = manager.MemoryEventFD()
	return fd, err
}

// killsIn returns how many processes the OOM killer has killed in a group of cgroup v2 and
// below it.
func killsIn(mount, group string) (int64, error) {
	manager, err := cgroup2.Load(group, cgroup2.WithMountpoint(mount))
	if err != nil {
		return 0, err
	}
	stat, err := manager.StatFiltered(cgroup2.StatMemoryEvents)
	switch {
	case err != nil:
		return 0, err
	case stat.MemoryEvents == nil: // how the library reports a missing or empty file
		return 0, fmt.Errorf("reading memory.events of %s: %w", group, unix.ENOENT)
	case stat.MemoryEvents.OomKill > math.MaxInt64:
		return 0, fmt.Errorf("reading memory.events of %s: %w", group, kernelfile.ErrOverflow)
	}
	return int64(stat.MemoryEvents.OomKill), nil
}

// detail2 returns the memory figures of a group of cgroup v2 and the groups below it,
// without those that the library omits.
func detail2(mount, group string) (*Detail, error) {
	manager, err := cgroup2.Load(group, cgroup2.WithMountpoint(mount))
	if err != nil {
		return nil, err
	}
	stat, err := manager.StatFiltered(cgroup2.StatMemory | cgroup2.StatMemoryEvents)
	if err != nil {
		return nil, err
	}
	m := stat.Memory
	return &Detail{
		Anonymous: nonZero(m.GetAnon()), File: nonZero(m.GetFile()), Shared: nonZero(m.GetShmem()),
		KernelStacks: nonZero(m.GetKernelStack()), Slab: nonZero(m.GetSlab()), Sockets: nonZero(m.GetSock()),
		Swap: nonZero(m.GetSwapUsage()), OOMKills: nonZero(stat.MemoryEvents.GetOomKill()),
	}, nil
}

// detail1 is detail2 for cgroup v1. Its kernel memory includes the page tables. A kill is
// counted in the container's own group, so that the count lacks containers that have ended.
func detail1(mount, group string, containers []string) (*Detail, error) {
	stat, err := stat1(mount, group, "kmem", "kmem.tcp")
	if err != nil {
		return nil, err
	}
	kills := uint64(0)
	for _, container := range containers {
		below, err := stat1(mount, filepath.Join(group, container))
		switch {
		case err == nil:
			kills += below.GetMemoryOomControl().GetOomKill()
		case !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ENODEV):
			return nil, err
		}
	}
	m := stat.GetMemory()
	return &Detail{
		Anonymous: nonZero(m.GetTotalRSS()), File: nonZero(m.GetTotalCache()), Kernel: nonZero(m.GetKernel().GetUsage()),
		Sockets: nonZero(m.GetKernelTCP().GetUsage()), OOMKills: nonZero(kills),
	}, nil
}

// stat1 reads a group's memory.stat, and the files of the modules as far as the kernel has
// them: the library fails for a missing one.
func stat1(mount, group string, modules ...string) (*stats1.Metrics, error) {
	ignored := []string{"", "memsw"}
	for _, module := range []string{"kmem", "kmem.tcp"} {
		_, err := os.Stat(filepath.Join(mount, "memory", group, "memory."+module+".usage_in_bytes"))
		if err != nil || !slices.Contains(modules, module) {
			ignored = append(ignored, module)
		}
	}
	var stat stats1.Metrics
	err := cgroup1.NewMemory(mount, cgroup1.IgnoreModules(ignored...)).Stat(group, &stat)
	return &stat, err
}

// nonZero returns a figure of the library; nil for zero, which the library also returns for
// what it could not read, and for impossible figures.
func nonZero(n uint64) *int64 {
	if n == 0 || n > math.MaxInt64 {
		return nil
	}
	figure := int64(n)
	return &figure
}
