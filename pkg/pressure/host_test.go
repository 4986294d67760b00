package pressure

import (
	"maps"

	"github.com/evictd/evictd/internal/testing/kernelfiletest"
)

// The files of a node with 24 GiB, of which the kernel says 22 GiB are available.
const (
	meminfoText = `MemTotal:       25165824 kB
MemFree:        19099488 kB
MemAvailable:   23068672 kB
Buffers:           15240 kB
Cached:          4673472 kB
SwapCached:            5 kB
Shmem:              8788 kB
Slab:             374392 kB
SReclaimable:     333520 kB
SwapTotal:       2097152 kB
SwapFree:        1048576 kB
HugePages_Total:       3
HugePages_Free:        3
Hugepagesize:       2048 kB
Hugetlb:            6144 kB
`
	loadavgText = "3.45 2.43 1.14 5/1020 15213\n"

	kib int64 = 1 << 10
	mib int64 = 1 << 20
	gib int64 = 1 << 30
)

type tree = kernelfiletest.Tree

const directory = kernelfiletest.Directory

const psiText = "some avg10=13.22 avg60=8.96 avg300=2.76 total=14917686\nfull avg10=11.28 avg60=5.15 avg300=1.40 total=8154993\n"

// procTree is what every node has.
func procTree() tree {
	return tree{
		"proc/meminfo":                meminfoText,
		"proc/loadavg":                loadavgText,
		"proc/pressure/memory":        psiText,
		"proc/sys/kernel/pid_max":     "32768\n",
		"proc/sys/kernel/threads-max": "192731\n",
		"var/lib/kubelet":             directory,
	}
}

// group1 are the files of a group of cgroup v1.
func group1(dir, usage, limit, inactive string) tree {
	return tree{
		dir + "/memory.usage_in_bytes":      usage + "\n",
		dir + "/memory.limit_in_bytes":      limit + "\n",
		dir + "/memory.kmem.usage_in_bytes": "5\n",
		dir + "/memory.stat":                "cache 1\nrss 1\ninactive_file 7\ntotal_cache 4801335296\ntotal_rss 1\ntotal_shmem 4\ntotal_inactive_file " + inactive + "\ntotal_active_file 3\n",
	}
}

// group2 are the files of a group of cgroup v2.
func group2(dir, current, limit, inactive string) tree {
	return tree{
		dir + "/memory.current": current + "\n",
		dir + "/memory.max":     limit + "\n",
		dir + "/memory.stat":    "anon 1000\nfile 2000\nfile_mapped 5\ninactive_anon 1\ninactive_file " + inactive + "\nactive_file 3\nslab_reclaimable 2\n",
	}
}

// v1Tree is a node with cgroup v1; its root's working set is 4 GiB and that of
// kubepods 3 GiB of 16.
func v1Tree() tree {
	all := procTree()
	maps.Copy(all, group1("sys/fs/cgroup/memory", "6442450944", "9223372036854771712", "2147483648"))
	maps.Copy(all, group1("sys/fs/cgroup/memory/kubepods", "4294967296", "17179869184", "1073741824"))
	return all
}

// hybridTree is v1Tree with a unified hierarchy that accounts for nothing.
func hybridTree() tree {
	all := v1Tree()
	all["sys/fs/cgroup/unified/cgroup.controllers"] = "\n"
	return all
}

// v2Tree is the same node with cgroup v2, whose root has no memory.current.
func v2Tree() tree {
	all := procTree()
	all["sys/fs/cgroup/cgroup.controllers"] = "cpuset cpu io memory pids\n"
	all["sys/fs/cgroup/memory.stat"] = "anon 3221225472\nfile 3221225472\nkernel_stack 5\ninactive_file 2147483648\n"
	maps.Copy(all, group2("sys/fs/cgroup/kubepods.slice", "4294967296", "17179869184", "1073741824"))
	return all
}

// spoils are the ways in which a file of the node can be at fault.
func spoils() map[string]kernelfiletest.Spoil {
	all := kernelfiletest.Spoils()
	all["missing"] = kernelfiletest.Remove
	all["no number"] = kernelfiletest.With("MemTotal: lots kB\nMemAvailable: some kB\n")
	return all
}
