package snapshot

import (
	"context"
	"errors"
	"fmt"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/measure"
	"github.com/evictd/evictd/internal/nodepods"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
	"github.com/evictd/evictd/pkg/usage"
)

// Rank computes the order of the recorded pods, in the same way as the agent. Its results are those
// of [measure.RankNow], with the pods within their requests protected as the configuration sets and
// as the signal's reading shows.
func (s *NodeSnapshot) Rank(ctx context.Context, signal pressure.Signal) (ranking rank.Ranking, unread, err error) {
	source := measure.Source{
		Cgroups: recordedUsage{s}, Disk: recordedDisk{s},
		Self:            s.Self,
		MemoryAvailable: s.Configuration.MemoryDefinition(),
	}
	ranking, unread, err = measure.RankNow(ctx, signal, s.Pods, source, s.Configuration.Rules())
	if err != nil {
		return ranking, unread, err
	}
	thresholds, err := s.Configuration.Thresholds()
	if err != nil {
		return ranking, unread, fmt.Errorf("reading the recorded thresholds: %w", err)
	}
	decide.WithinRequests(s.Configuration.Protect.WithinRequests).WithholdNow(&ranking, signal, thresholds, s.observation(signal))
	return ranking, unread, nil
}

// observation returns the recorded reading of a signal, as far as it is known.
func (s *NodeSnapshot) observation(signal pressure.Signal) pressure.Observation {
	recorded, _ := s.Of(signal)
	if recorded.Available == nil || recorded.Capacity == nil {
		return pressure.Observation{State: pressure.Unknown}
	}
	return pressure.Observation{State: pressure.Known, Available: *recorded.Available, Capacity: *recorded.Capacity}
}

// recordedUsage answers as the pods' cgroups did.
type recordedUsage struct{ seen *NodeSnapshot }

// Collect returns what was recorded, and why some of it is missing.
func (r recordedUsage) Collect(into []usage.Pod) ([]usage.Pod, error) {
	into = into[:0]
	for _, u := range r.seen.Usage {
		pod := usage.Pod{UID: u.UID, WorkingSet: u.WorkingSet, Anonymous: u.Anonymous, Shared: u.Shared}
		pod.Kernel, pod.KernelKnown = figure(u.Kernel)
		pod.Tasks, pod.TasksKnown = figure(u.Tasks)
		into = append(into, pod)
	}
	if r.seen.UsageUnread != "" {
		return into, errors.New(r.seen.UsageUnread)
	}
	return into, nil
}

// recordedDisk answers as the kubelet did.
type recordedDisk struct{ seen *NodeSnapshot }

// Measure returns what was recorded, or why nothing was.
func (r recordedDisk) Measure(context.Context, []*nodepods.Pod) (map[string]usage.DiskUse, error) {
	if r.seen.Disk == nil {
		why := r.seen.DiskUnmeasured
		if why == "" {
			why = "it was not measured when this was recorded; rank it for memory.available or pid.available"
		}
		return nil, errors.New(why)
	}
	uses := make(map[string]usage.DiskUse, len(r.seen.Disk))
	for i := range r.seen.Disk {
		d := &r.seen.Disk[i]
		uses[d.UID] = usage.DiskUse{NodeFS: d.NodeFS.use(), ImageFS: d.ImageFS.use(), Time: d.Time}
	}
	return uses, nil
}

func (f Filesystem) use() (use usage.FSUse) {
	use.Bytes, use.BytesKnown = figure(f.Bytes)
	use.Inodes, use.InodesKnown = figure(f.Inodes)
	return use
}

// figure returns a recorded figure, and whether it is known.
func figure(n *int64) (int64, bool) {
	if n == nil {
		return 0, false
	}
	return *n, true
}
