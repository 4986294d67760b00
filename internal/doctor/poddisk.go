package doctor

import (
	"context"
	"slices"

	"github.com/evictd/evictd/pkg/pressure"
)

// The sources of the pods' disk use. One of them is configured, and has a line.
const (
	summaryName  = "pod-disk/summary"
	podFilesName = "pod-disk/node"
)

// summary tries the kubelet's Summary API.
func summary(ctx context.Context, read func(context.Context) (bool, error), thresholds []pressure.Threshold) []Finding {
	if read == nil {
		return nil
	}
	unseen, err := read(ctx)
	if err != nil {
		return []Finding{{
			summaryName, withoutDisk(thresholds), oneLine(err), "what pods use of the disks is not known, and no pod is evicted for disk",
			"README.md, \"Platform notes\", says what to do about the kubelet's certificate; see right/get nodes/stats",
		}}
	}
	if unseen {
		return []Finding{{
			summaryName, Degraded, "by the kubelet's Summary images are on a filesystem that evictd does not see",
			"imagefs.available and imagefs.inodesFree are read of nodefs, and the images' filesystem is left to the kubelet",
			"mount the images' directory; README.md, \"Platform notes\", says where",
		}}
	}
	return []Finding{fine(summaryName, "the kubelet's Summary API answers")}
}

func summaryNames(s *Subject) []string {
	if s.API.Summary == nil {
		return nil
	}
	return []string{summaryName}
}

// podFiles tries to read the pods' files on the node.
func podFiles(try func() error, thresholds []pressure.Threshold) []Finding {
	if try == nil {
		return nil
	}
	if err := try(); err != nil {
		return []Finding{{
			podFilesName, withoutDisk(thresholds), oneLine(err), "what pods use of the disks is not known, and no pod is evicted for disk",
			"add the component deploy/components/disk-node; docs/disk.md, \"Rights\"",
		}}
	}
	return []Finding{fine(podFilesName, "the pods' files can be read")}
}

// withoutDisk is the state where the pods' disk use cannot be measured.
func withoutDisk(thresholds []pressure.Threshold) State {
	if slices.ContainsFunc(thresholds, func(t pressure.Threshold) bool { return t.Signal.OnDisk() }) {
		return Missing
	}
	return Degraded
}
