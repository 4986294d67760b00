package usage

import (
	"fmt"
	"path/filepath"

	"github.com/evictd/evictd/internal/testing/kernelfiletest"
)

type files = kernelfiletest.Tree

const directory = kernelfiletest.Directory

// version is one of the ways in which a node's cgroups are mounted.
type version int

const (
	v1 version = iota
	v1NoPIDs
	hybrid
	v2
)

func versions() map[string]version {
	return map[string]version{"v1": v1, "v1 without pids": v1NoPIDs, "hybrid": hybrid, "v2": v2}
}

// node returns an empty cgroup mount.
func (v version) node() files {
	switch v {
	case v2:
		return files{"cgroup.controllers": "cpuset cpu io memory pids\n", "memory.stat": "anon 1\n"}
	case hybrid:
		return files{"memory/memory.stat": "cache 1\n", "pids/tasks": "1\n", "unified/cgroup.controllers": "\n"}
	case v1:
		return files{"memory/memory.stat": "cache 1\n", "pids/tasks": "1\n"}
	default:
		return files{"memory/memory.stat": "cache 1\n"}
	}
}

// memoryDir returns where a group accounts for memory.
func (v version) memoryDir(group string) string {
	if v == v2 {
		return group
	}
	return filepath.Join("memory", group)
}

// usageFile returns the name of the file with the usage.
func (v version) usageFile() string {
	if v == v2 {
		return "memory.current"
	}
	return "memory.usage_in_bytes"
}

func (v version) pidsDir(group string) string {
	if v == v2 {
		return group
	}
	return filepath.Join("pids", group)
}

// figures are the contents of a pod's cgroup.
type figures struct{ usage, anonymous, shared, inactiveFile, tasks, kernel, slabReclaimable int64 }

// add puts a pod's cgroup below the mount.
func (v version) add(f files, group string, n figures) {
	stat := fmt.Sprintf("cache 1\nrss 2\nshmem 3\ninactive_file 4\ntotal_cache 5\ntotal_rss %d\ntotal_rss_huge 6\ntotal_shmem %d\ntotal_inactive_anon 7\ntotal_inactive_file %d\ntotal_active_file 8\n",
		n.anonymous, n.shared, n.inactiveFile)
	if v == v2 {
		stat = fmt.Sprintf("anon %d\nfile 9\nkernel %d\nkernel_stack 9\nshmem %d\nanon_thp 9\nshmem_thp 9\ninactive_anon 9\ninactive_file %d\nactive_file 9\nslab_reclaimable %d\nslab_unreclaimable 9\nslab 9\n",
			n.anonymous, n.kernel, n.shared, n.inactiveFile, n.slabReclaimable)
	}
	f[filepath.Join(v.memoryDir(group), "memory.stat")] = stat
	f[filepath.Join(v.memoryDir(group), v.usageFile())] = fmt.Sprintf("%d\n", n.usage)
	if v != v1NoPIDs {
		f[filepath.Join(v.pidsDir(group), "pids.current")] = fmt.Sprintf("%d\n", n.tasks)
	}
}

// spoils are the ways in which a file of a pod can be at fault. A missing file is that of a
// removed pod.
func spoils() map[string]kernelfiletest.Spoil {
	all := kernelfiletest.Spoils()
	all["max"] = kernelfiletest.With("max\n")
	all["other"] = kernelfiletest.With("total_rss x\ntotal_shmem y\ntotal_inactive_file z\nanon x\nshmem y\ninactive_file z\n")
	return all
}
