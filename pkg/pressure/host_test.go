package pressure

import (
	"maps"

	"github.com/evictd/evictd/internal/testing/kernelfiletest"
	mustbe "github.com/evictd/evictd/internal/testing/must"
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

// must ends the test where something failed.
var must = mustbe.Succeed

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

// nodeOf is a node whose root cgroup has a working set of 4 GiB; that of version 2 has no memory.current.
func nodeOf(v kernelfiletest.Version, kubepods string, group kernelfiletest.Group) tree {
	mount := v.Mount()
	v.Add(mount, "", kernelfiletest.Group{Usage: 6 * gib, Anonymous: 3 * gib, File: 3 * gib, InactiveFile: 2 * gib, Limit: "9223372036854771712"})
	delete(mount, "memory.current")
	group.ActiveFile, group.Kernel, group.SlabReclaimable = 3, 5, 2
	v.Add(mount, kubepods, group)
	all := procTree()
	maps.Copy(all, mount.Below(cgroupRoot[1:]))
	return all
}

// threeOf16 is a kubepods cgroup with a working set of 3 GiB of 16.
func threeOf16() kernelfiletest.Group {
	return kernelfiletest.Group{Usage: 4 * gib, InactiveFile: gib, Limit: "17179869184"}
}

func v1Tree() tree     { return nodeOf(kernelfiletest.V1, "kubepods", threeOf16()) }
func hybridTree() tree { return nodeOf(kernelfiletest.Hybrid, "kubepods", threeOf16()) }
func v2Tree() tree     { return nodeOf(kernelfiletest.V2, "kubepods.slice", threeOf16()) }

// spoils are the ways in which a file of the node can be at fault.
func spoils() map[string]kernelfiletest.Spoil {
	all := kernelfiletest.Spoils()
	all["missing"] = kernelfiletest.Remove
	all["no number"] = kernelfiletest.With("MemTotal: lots kB\nMemAvailable: some kB\n")
	return all
}
