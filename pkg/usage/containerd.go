package usage

import (
	"github.com/containerd/cgroups/v3/cgroup1"
	stats1 "github.com/containerd/cgroups/v3/cgroup1/stats"
	"github.com/containerd/cgroups/v3/cgroup2"
)

// The only use of containerd/cgroups, v3.1.3, which docs/adr/0016 keeps behind this file: it
// does not report a removed group, and returns zeros for what it cannot read.

// detail2 returns the memory figures of a group of cgroup v2 and the groups below it.
func detail2(mount, group string) (Detail, error) {
	manager, err := cgroup2.Load(group, cgroup2.WithMountpoint(mount))
	if err != nil {
		return nil, err
	}
	stat, err := manager.StatFiltered(cgroup2.StatMemory | cgroup2.StatMemoryEvents)
	if err != nil {
		return nil, err
	}
	m := stat.Memory
	return Detail{
		"anonymous": m.GetAnon(), "file": m.GetFile(), "shared": m.GetShmem(),
		"kernel_stacks": m.GetKernelStack(), "slab": m.GetSlab(), "sockets": m.GetSock(),
		"swap": m.GetSwapUsage(), "oom_kills": stat.MemoryEvents.GetOomKill(),
	}, nil
}

// detail1 is detail2 for cgroup v1, from memory.stat: not all kernels have the other files, and the
// library fails for a missing one.
func detail1(mount, group string) (Detail, error) {
	var stat stats1.Metrics
	if err := cgroup1.NewMemory(mount, cgroup1.IgnoreModules("", "memsw", "kmem", "kmem.tcp")).Stat(group, &stat); err != nil {
		return nil, err
	}
	return Detail{"anonymous": stat.Memory.GetTotalRSS(), "file": stat.Memory.GetTotalCache()}, nil
}
