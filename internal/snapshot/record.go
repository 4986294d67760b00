package snapshot

import (
	"cmp"
	"maps"
	"slices"

	"github.com/evictd/evictd/internal/nodepods"
	"github.com/evictd/evictd/pkg/usage"
)

// SetPods takes the node's pods, by namespace and name.
func (s *NodeSnapshot) SetPods(pods []*nodepods.Pod) {
	s.Pods = slices.Clone(pods)
	slices.SortFunc(s.Pods, func(a, b *nodepods.Pod) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
	})
}

// SetUsage takes what the cgroups of its pods say, and why some are missing; nil when
// none is. The kubelet may not have removed yet the cgroup of a pod that the API
// server does not list any more: such a cgroup is left out.
func (s *NodeSnapshot) SetUsage(read []usage.Pod, unread error) {
	_, cgroups := s.uids()
	s.Usage = make([]Usage, 0, len(read))
	for i := range read {
		r := &read[i]
		if !cgroups[r.UID] || r.Unused {
			continue // an unused cgroup does not show what its pod uses
		}
		s.Usage = append(s.Usage, Usage{
			UID: r.UID, WorkingSet: r.WorkingSet, Anonymous: r.Anonymous, Shared: r.Shared,
			Kernel: known(r.Kernel, r.KernelKnown), Tasks: known(r.Tasks, r.TasksKnown),
		})
	}
	slices.SortFunc(s.Usage, func(a, b Usage) int { return cmp.Compare(a.UID, b.UID) })
	s.UsageUnread = ""
	if unread != nil {
		s.UsageUnread = unread.Error()
	}
}

// SetDisk takes what its pods use of the disk, by UID, or why that was not measured.
func (s *NodeSnapshot) SetDisk(measured map[string]usage.DiskUse, fault error) {
	s.Disk, s.DiskUnmeasured = nil, ""
	if fault != nil {
		s.DiskUnmeasured = fault.Error()
		return
	}
	pods, _ := s.uids()
	s.Disk = make([]Disk, 0, len(measured))
	for _, uid := range slices.Sorted(maps.Keys(measured)) {
		if use := measured[uid]; pods[uid] {
			s.Disk = append(s.Disk, Disk{UID: uid, NodeFS: newFilesystem(&use.NodeFS), ImageFS: newFilesystem(&use.ImageFS), Time: use.Time})
		}
	}
}

func newFilesystem(use *usage.FSUse) Filesystem {
	return Filesystem{Bytes: known(use.Bytes, use.BytesKnown), Inodes: known(use.Inodes, use.InodesKnown)}
}

// known returns a figure as it is recorded: nil when it is not known.
func known(n int64, isKnown bool) *int64 {
	if !isKnown {
		return nil
	}
	return &n
}

// uids returns the UIDs of the pods in the API, and those in the names of their cgroups.
func (s *NodeSnapshot) uids() (pods, cgroups map[string]bool) {
	pods, cgroups = make(map[string]bool, len(s.Pods)), make(map[string]bool, len(s.Pods))
	for _, pod := range s.Pods {
		pods[pod.UID], cgroups[pod.CgroupUID] = true, true
	}
	return pods, cgroups
}
