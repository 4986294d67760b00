package kernelfiletest

import (
	"fmt"
	"path/filepath"
)

// Version is one of the ways in which a node's cgroups are mounted.
type Version int

// The versions.
const (
	V1 Version = iota
	V1NoPIDs
	Hybrid // as V1, with a unified hierarchy that accounts for nothing
	V2
)

// Versions returns all by their names.
func Versions() map[string]Version {
	return map[string]Version{"v1": V1, "v1 without pids": V1NoPIDs, "hybrid": Hybrid, "v2": V2}
}

// Mount returns an empty cgroup mount.
func (v Version) Mount() Tree {
	if v == V2 {
		return Tree{"cgroup.controllers": "cpuset cpu io memory pids\n", "memory.stat": "anon 1\n"}
	}
	mount := Tree{"memory/memory.stat": "cache 1\n"}
	if v != V1NoPIDs {
		mount["pids/tasks"] = "1\n"
	}
	if v == Hybrid {
		mount["unified/cgroup.controllers"] = "\n"
	}
	return mount
}

// Dir returns where a controller, "memory" or "pids", accounts for a group, below the mount.
func (v Version) Dir(controller, group string) string {
	if v == V2 {
		return group
	}
	return filepath.Join(controller, group)
}

// UsageFile returns the name of the file with the usage.
func (v Version) UsageFile() string {
	if v == V2 {
		return "memory.current"
	}
	return "memory.usage_in_bytes"
}

// Group is the content of a cgroup. V1 has kernel memory in a file of its own.
type Group struct {
	Usage, Anonymous, Shared, File, InactiveFile, ActiveFile, Kernel, SlabReclaimable, Tasks int64
	Limit                                                                                    string // "" is no file
}

// Add puts a group below the mount. What no reader should take for a figure has another one.
func (v Version) Add(mount Tree, group string, g Group) {
	write := func(controller, file, content string) {
		mount[filepath.Join(v.Dir(controller, group), file)] = content + "\n"
	}
	stat, limit := fmt.Sprintf("anon %d\nfile %d\nkernel %d\nkernel_stack 16\nshmem %d\nanon_thp 9\nshmem_thp 9\ninactive_anon 9\ninactive_file %d\nactive_file %d\n"+
		"slab_reclaimable %d\nslab_unreclaimable 9\nslab 13\nsock 4", g.Anonymous, g.File, g.Kernel, g.Shared, g.InactiveFile, g.ActiveFile, g.SlabReclaimable), "memory.max"
	if v != V2 {
		stat, limit = fmt.Sprintf("cache 1\nrss 2\nshmem 3\ninactive_file 4\ntotal_cache %d\ntotal_rss %d\ntotal_rss_huge 6\ntotal_shmem %d\ntotal_inactive_anon 7\n"+
			"total_inactive_file %d\ntotal_active_file %d", g.File, g.Anonymous, g.Shared, g.InactiveFile, g.ActiveFile), "memory.limit_in_bytes"
		write("memory", "memory.kmem.usage_in_bytes", fmt.Sprint(g.Kernel))
	}
	write("memory", "memory.stat", stat)
	write("memory", v.UsageFile(), fmt.Sprint(g.Usage))
	if g.Limit != "" {
		write("memory", limit, g.Limit)
	}
	if v != V1NoPIDs {
		write("pids", "pids.current", fmt.Sprint(g.Tasks))
	}
}

// Below returns the tree with all its files below a directory.
func (t Tree) Below(dir string) Tree {
	below := Tree{}
	for path, content := range t {
		below[filepath.Join(dir, path)] = content
	}
	return below
}
