package measure

import (
	"context"
	"fmt"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/nodepods"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
	"github.com/evictd/evictd/pkg/usage"
)

// Source is where the pods' usage comes from, outside a running agent: a node that
// is looked at now, or one that was recorded.
type Source struct {
	Cgroups Collector
	Disk    Disk
	// MemoryAvailable is how memory.available is measured, and so the pods' memory: the
	// zero value is the kernel's definition.
	MemoryAvailable pressure.MemoryDefinition
	// Self is evictd's own pod; the zero value is none.
	Self nodepods.Self
}

// RankNow returns the order right now, by the same way as the agent and without
// acting. Unread names the pods whose cgroups could not be read; they are ranked
// as protected. An error means that there is no ranking.
func RankNow(
	ctx context.Context, signal pressure.Signal, pods []*nodepods.Pod, source Source, rules rank.Rules,
) (ranking rank.Ranking, unread, err error) {
	resource := decide.RankedBy(signal)
	var uses *decide.Uses
	switch resource {
	case rank.Disk, rank.Inodes:
		measured, err := source.Disk.Measure(ctx, pods)
		if err != nil {
			return rank.Ranking{}, nil, fmt.Errorf("measuring the pods' disk use: %w", err)
		}
		uses = DiskUses(signal, pods, measured, 0)
	case rank.Memory, rank.PIDs:
		var read []usage.Pod
		read, unread = source.Cgroups.Collect(nil)
		if unread != nil && len(read) == 0 {
			return rank.Ranking{}, nil, fmt.Errorf("reading the pods' cgroups: %w", unread)
		}
		uses = CgroupUses(signal, source.MemoryAvailable, pods, read)
	}
	return rank.Order(resource, uses.Facts(signal, pods, source.Self), rules), unread, nil
}
