// Package usage answers one question: what does each pod use?
//
// Memory and tasks come from the pods' cgroups, with version 1 and 2, and with the
// names of both of the kubelet's cgroup drivers:
//
//	kubepods, err := usage.FindKubepods("/sys/fs/cgroup", "")
//	tree, err := usage.Open("/sys/fs/cgroup", kubepods)
//	…
//	pods, err = tree.Collect(pods[:0], nil)
//	for _, p := range pods {
//		fmt.Println(p.UID, p.WorkingSet, p.Reclaim())
//	}
//
// Disk usage comes from the kubelet's Summary API, see [FetchSummary] and [DiskUses], which
// needs no access to the pods' files, or from these files themselves, see [OpenNodeDisk]:
// more recent, and with deleted files that are still open. docs/signals.md compares the two.
//
// Unknown is never zero: a pod is in a result only when all of it was read, and a figure
// that may be missing says whether it is known. A pod whose cgroup was removed meanwhile is
// left out; one that uses nothing is marked as unused, because a cgroup with a process in it
// always uses something.
//
// Limits: the package knows pods by the UID in their cgroup's name. That is the API server's
// UID, except for static pods, where it is the hash in the annotation
// kubernetes.io/config.hash. Swap and huge pages are not counted.
package usage
