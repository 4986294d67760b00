// Package kernelfile reads small files of the kernel (/proc, cgroups) again and
// again, and never takes a fault for a number: a file that is missing, empty, cut
// off, too large or not what it should be is an error that says which and where.
//
//	buffer := make([]byte, 128)
//	file := kernelfile.New("/sys/fs/cgroup/kubepods.slice/pids.current")
//	tasks, err := file.Number(buffer)
//
// Reading allocates nothing. [HierarchyOf] says which version of cgroups a node has.
// The package is the one thing that pkg/pressure and pkg/usage share.
package kernelfile
